"""Rows of the quiet table: a request in a stage of a run whose code ends in some way, with some workers.

When nothing arrives and no timer is due, the log has the same length a day later, and all who tell of a process agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

from seekpoint.consumers.view.process_summary import summary_of
from seekpoint.producers import Client, Node, Process, Retry, Worker, agent
from seekpoint.producers.worker import agent_worker
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Cancelled, JournalGap, ResultTimeout, RunFailed, SeekpointError
from virtual_world import LoopClock, LoopLog, in_virtual_time

__all__ = ["ROWS", "Row", "actor", "check_agreement", "helper", "play"]


class Row(NamedTuple):
    """One row."""

    stage: str
    request: str
    end: str
    workers: int


@agent("helper")
async def helper(process: Process, _: None) -> str:
    await process.gate("go")
    return "done"


async def _nothing() -> None:
    """Do nothing."""


async def _refuses() -> None:
    raise ValueError("the bank refuses")


async def _no_answer() -> None:
    raise TimeoutError("no answer")


async def _cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(9))
    task.cancel()
    await task


async def _wait(process: Process, stage: str) -> None:
    """Come to the stage, and go beyond it if it ends."""
    if stage == "running":
        await process.step("slow", asyncio.sleep, 15)
    elif stage == "timer":
        await process.sleep(15)
    elif stage == "gate":
        await process.gate("go")
    elif stage == "deadline":
        await process.gate("go", timeout=15)
    elif stage == "receive":
        await process.receive("go")
    elif stage == "child":
        await process.spawn(helper, f"{process.process_id}.1").result()
    elif stage == "effect":
        await asyncio.gather(
            process.effect("pay", _no_answer), process.sleep(15), process.step("long", asyncio.sleep, 9)
        )
    elif stage == "undoing":
        await process.effect("book", _nothing, compensate=lambda: asyncio.sleep(15))
        await process.step("fails", _refuses)
    elif stage == "stuck":
        await process.effect("book", _nothing, compensate=_refuses)
        await process.gate("go")
    elif stage == "failed":
        await process.step("fails", _refuses)
    elif stage == "budget":
        await process.set_budget({"tool_calls": 0}, on_exceed="pause")
        await process.tool("look", _nothing)


def _raising(error: Callable[[], BaseException]) -> Callable[[], Awaitable[None]]:
    async def end() -> None:
        raise error()

    return end


ENDS: dict[str, Callable[[], Awaitable[None]]] = {
    "return": _nothing,
    "error": _refuses,
    "cancelled task": _cancelled_task,
    **{
        kind.__name__: _raising(kind)
        for kind in (asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt, StopIteration)
    },
    "Retryable": _raising(lambda: ResultTimeout("another run goes on")),
    "Cancelled": _raising(lambda: Cancelled("another run was cancelled")),
    "JournalGap": _raising(lambda: JournalGap("the history is gone")),
    "group": _raising(lambda: BaseExceptionGroup("both", [SystemExit(), asyncio.CancelledError()])),
}


@agent("actor")
async def actor(process: Process, plan: str) -> str:
    stage, end = plan.split("/")
    await process.step("first", _nothing)
    await _wait(process, stage)
    if end.endswith(" in a step"):
        await process.step("ends", ENDS[end.removesuffix(" in a step")])
    else:
        await ENDS[end]()
    return "done"


@agent("tried", retry=Retry(attempts=2, backoff_s=20.0))
async def tried(process: Process, plan: str) -> str:
    stage, end = plan.split("/")
    await _wait(process, stage)
    await ENDS[end]()
    return "done"


class Bench:
    """The log of one row, and who works on it."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.log = LoopLog()
        self.clock = LoopClock()
        self.process_id = "p"

    async def sleep(self, seconds: float) -> None:
        """Let time pass. Raises ``AssertionError`` if the log becomes longer than any row makes it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.log.overfull.wait()
                raise AssertionError(f"{self.row}: the log grows without end")

    async def submit(self, client: Client) -> None:
        """Submit the run of the row."""
        name = "tried" if self.row.stage == "retried" else "actor"
        plan = f"{self.row.stage}/{self.row.end}"
        await client.submit(name, self.process_id, plan, delay=15 if self.row.stage == "delayed" else None)

    async def begin(self, stack: AsyncExitStack, client: Client) -> None:
        """Come to the stage of the row."""
        stage, request = self.row.stage, self.row.request
        is_early = stage in ("unknown", "inbox", "submitted", "claimed")
        if stage != "unknown":
            await self.submit(client)
        if stage == "submitted":
            await client._runtime.append_external(self.process_id, b.Submitted("actor", f'"{stage}/{self.row.end}"'))
        if stage == "claimed":
            async with Node.in_memory(self.log, clock=self.clock) as node:
                await node.open(self.process_id)  # and dies
        if is_early:
            await self.ask(client, request)
        for number in range(self.row.workers):
            group = "other" if number and self.row.end == "error" else "workers"  # as in a rolling deployment
            worker = Worker.in_memory(
                [actor, tried, helper], self.log, clock=self.clock, grace_s=0.5, drain_s=1.0, group=group,
                runs_max=1 if stage == "queued" else 100,
            )  # fmt: skip
            await stack.enter_async_context(worker)
        await self.sleep(6.0)
        if stage == "stuck":
            await client.cancel(self.process_id)
            await self.sleep(30.0)
        if stage == "held":
            await client.suspend(self.process_id)
            await self.sleep(2.0)
        if not is_early:
            await self.ask(client, request)

    async def ask(self, client: Client, request: str) -> None:
        """Make the request, where it is not refused."""
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "cancel": lambda: client.cancel(self.process_id),
            "suspend": lambda: client.suspend(self.process_id),
            "resume": lambda: client.resume(self.process_id),
            "redrive": lambda: client.redrive(self.process_id),
            "signal": lambda: client.signal(self.process_id, "go"),
            "stray": lambda: client.signal(self.process_id, "nobody's"),
            "approve": lambda: client.approve(self.process_id, "go"),
            "verdict": lambda: client.verdict(self.process_id, "pay:1", "failed"),
            "submit": lambda: self.submit(client),
            "delete": self.delete,
        }
        for name in filter(None, request.split("+")):
            with suppress(SeekpointError):
                await calls[name]()
            await self.sleep(3.0)

    async def delete(self) -> None:
        """Delete the process."""
        async with Node.in_memory(self.log, clock=self.clock) as node:
            await node.delete(self.process_id)


async def check_agreement(client: Client, process_id: str, now_us: int | None = None) -> str:
    """Check that ``status``, ``result`` and the summary of ``ps`` agree; return the stage."""
    status, state = await client.status(process_id), (await client.recover(process_id, missing_ok=True)).state
    summary = summary_of(0, process_key(process_id), state)
    try:
        await client.result(process_id, 0.1)
        over = "finished"
    except Cancelled:
        over = "stopped"
    except RunFailed:
        over = "failed"
    except ResultTimeout:
        over = ""
    assert (status.stage if over else "") == over, (status, over)
    assert state.is_deleted or status.stage in (summary.status, "suspended", "submitted", "unknown"), (status, summary)
    assert {wait.rpartition(" ")[2] for wait in summary.awaits} == {
        wait.rpartition(" ")[2] for wait in status.waits_for
    }
    assert not (over and summary.waits_for)
    if now_us is not None and status.stage not in ("suspended", "unknown"):
        assert summary.until_us is None or summary.until_us > now_us, summary
    return status.stage


async def _play(row: Row) -> str:
    bench = Bench(row)
    async with AsyncExitStack() as stack, Client.in_memory(bench.log) as client:
        await bench.begin(stack, client)
        # Timers and retries are over then, and the longest pause of a worker.
        await bench.sleep(75.0 if "Retryable" not in row.end else 300.0)
        length = bench.log.records
        await bench.sleep(75.0)
        asyncio.get_running_loop().now_s += 86_400  # type: ignore[attr-defined]
        await bench.sleep(15.0)
        assert bench.log.records == length, f"{row}: {bench.log.records - length} records more"
        return await check_agreement(client, bench.process_id, bench.clock.now_us() if row.workers else None)


def play(row: Row) -> str:
    """Play a row; return the stage at its end. Raises ``AssertionError`` if it does not become quiet."""
    with mock.patch.object(agent_worker, "_LOOK_S", 2.0):
        return in_virtual_time(_play(row))


REQUESTS = (
    "", "cancel", "cancel+cancel", "suspend", "resume", "suspend+resume", "suspend+cancel", "signal", "stray",
    "stray+submit", "approve", "verdict", "redrive", "redrive+redrive", "cancel+redrive", "submit", "delete",
)  # fmt: skip
STAGES = (
    "unknown", "inbox", "submitted", "claimed", "delayed", "running", "timer", "gate", "deadline", "receive", "child",
    "effect", "undoing", "stuck", "held", "failed", "retried", "budget", "finished",
)  # fmt: skip
_IN_STEPS = tuple(f"{end} in a step" for end in ("cancelled task", "GeneratorExit", "SystemExit", "group"))
ROWS = tuple(Row(*row) for row in product(STAGES, REQUESTS, (*ENDS, *_IN_STEPS), (0, 1, 2)))
