"""Agents that wait for one thing each, and then act once. What their bodies do is told to a file."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from seekpoint.producers import Effect, Process, agent

__all__ = ["AGENTS", "approval", "tell", "tick"]


def tell(what: str, process_id: str) -> None:
    """Append a line to the file: one write, so that the lines of many programs do not mix."""
    line = json.dumps({"what": what, "id": process_id, "by": os.getpid(), "at": time.time()}) + "\n"
    file = os.open(os.environ["FLEET_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


async def _act(process: Process, value: Any) -> Any:
    """Do something in a step of its own; return the run's result."""

    def act() -> Any:
        tell("acted", process.process_id)
        return value

    return await process.step("act", act)


@agent("timer")
async def timer(process: Process, span_s: float) -> Any:
    """Wait for a moment."""
    tell("waits", process.process_id)
    await process.sleep(span_s)
    return await _act(process, "fired")


@agent("deadline")
async def deadline(process: Process, span_s: float) -> Any:
    """Wait for a gate that nobody answers."""
    tell("waits", process.process_id)
    answer = await process.gate("approve", timeout=span_s)
    return await _act(process, answer.outcome)


@agent("approval")
async def approval(process: Process, number: int) -> Any:
    """Wait for a person, however long."""
    answer = await process.gate("approve", prompt=number)
    return await _act(process, answer.outcome)


@agent("signal")
async def signal(process: Process, span_s: float) -> Any:
    """Wait for a signal."""
    tell("waits", process.process_id)
    item = await process.receive("go")
    return await _act(process, item.payload)


@agent("cancel")
async def cancel(process: Process, span_s: float) -> Any:
    """Wait until somebody cancels; what was done is taken back then."""

    async def pay() -> None:
        tell("paid", process.process_id)

    async def take_back() -> None:
        tell("acted", process.process_id)

    await process.effect("pay", pay, compensate=take_back)
    tell("waits", process.process_id)
    await process.gate("approve")


@agent("verdict")
async def verdict(process: Process, span_s: float) -> Any:
    """Wait for a person to say what became of an effect."""

    async def pay() -> None:
        tell("paid", process.process_id)
        raise TimeoutError("no answer")

    tell("waits", process.process_id)
    return await _act(process, await process.effect("pay", pay, semantics=Effect.AT_MOST_ONCE))


@agent("child")
async def child(process: Process, span_s: float) -> Any:
    """Wait for the end of a child, which ends at a signal."""
    spawned = process.spawn(signal, f"{process.process_id}.child", span_s)
    return await _act(process, await spawned.result())


@agent("tick", schedule="* * * * *", missed="all")
async def tick(process: Process, moment: str) -> Any:
    """Act at each minute."""
    return await _act(process, moment)


AGENTS = [timer, deadline, signal, cancel, verdict, child]
