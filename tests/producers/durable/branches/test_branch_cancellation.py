"""Branches that are cancelled, alone or with their process: what they are told, and what they may still write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from branch_programs import for_ever, result_of, running, slowly
from cuts import bodies, cut_after, on_node, until
from seekpoint.producers import Node, Process
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Cancelled, SeekpointError


async def test_a_cancelled_branch_gets_no_answer_that_its_body_makes_afterwards() -> None:
    """The body swallows the cancellation and its result is recorded; the branch is cancelled in every run."""
    told: list[str] = []

    async def stubborn() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return "anyway"
        return "never"

    async def code(process: Process) -> Any:
        async def branch() -> str:
            try:
                return await process.step("stubborn", stubborn)
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        won = await process.race(branch(), process.step("quick", slowly, 1))
        await process.step("end", str, won)
        raise KeyError("stop here")

    log = MemoryLog(partitions=1)
    for _ in range(3):
        with pytest.raises(KeyError):
            await result_of(code, log)
    assert told == ["cancelled"] * 3


async def test_a_cancelled_process_tells_its_branches() -> None:
    log = MemoryLog(partitions=1)

    async def code(process: Process) -> Any:
        await process.node.cancel("p")
        return await process.gather(process.gate("one"), process.gate("two"))

    with pytest.raises(Cancelled):
        await result_of(code, log)


async def test_a_run_that_is_cancelled_from_outside_resumes_where_its_branches_were() -> None:
    log, begun = MemoryLog(partitions=1), asyncio.Event()
    waits = True

    async def code(process: Process) -> Any:
        async def branch(name: str) -> Any:
            await process.step(f"{name} first", slowly, 1)
            return await process.step(name, held)

        async def held() -> str:
            begun.set()
            await (for_ever() if waits else slowly(1))
            return "went on"

        return await process.gather(branch("a"), branch("b"))

    run = asyncio.create_task(result_of(code, log))
    await asyncio.wait_for(begun.wait(), 20)
    run.cancel()
    await asyncio.wait([run])
    waits = False
    assert await result_of(code, log) == ["went on", "went on"]


async def test_a_cancelled_process_comes_to_its_effects_in_every_branch_before_it_is_told() -> None:
    """The request is known when the run begins; the compensation is known once the code has asked for the effect."""
    done: list[str] = []

    async def do(what: str) -> str:
        done.append(what)
        return what

    async def undo(what: str) -> None:
        done.append(f"un{what}")

    async def code(process: Process) -> Any:
        async def books() -> None:
            await process.step("look", slowly, 1)
            await process.effect("book", do, "book", compensate=undo)
            await process.gate("booked")

        await process.gather(process.gate("go"), books())

    log = MemoryLog(partitions=1)

    async def crashes(node: Node) -> None:
        run = asyncio.create_task(node.run(running(code), "p"))
        await until(lambda: sum(body.KIND == "gate_opened" for body in bodies(log)) == 2)
        await node.close()
        with pytest.raises((asyncio.CancelledError, SeekpointError)):
            await run

    await on_node(log, crashes)
    await on_node(log, lambda node: node.cancel("p"))
    with pytest.raises(Cancelled):
        await result_of(code, log)
    assert done == ["book", "unbook"]


async def test_a_cancelled_branch_writes_content_once() -> None:
    """A request to stop has no record among the calls, and content may be written after it."""
    done: list[str] = []

    async def do(what: str) -> str:
        done.append(what)
        return what

    async def undo(what: str) -> None:
        done.append(f"un{what}")

    async def code(process: Process) -> Any:
        async def waits() -> None:
            try:
                await process.gate("go")
            finally:
                await process.update("cleaned", True)

        async def books() -> None:
            await process.effect("book", do, "book", compensate=undo)
            await process.gate("booked")

        await process.gather(waits(), books())

    log = MemoryLog(partitions=1)

    async def cancelled(node: Node) -> None:
        run = asyncio.create_task(node.run(running(code), "p"))
        await until(lambda: sum(body.KIND == "gate_opened" for body in bodies(log)) == 2)
        await node.cancel("p")
        with pytest.raises(Cancelled):
            await run

    await on_node(log, cancelled)
    assert done == ["book", "unbook"]
    kinds = [body.KIND for body in bodies(log)]
    for entries in range(kinds.index("cancel_accepted") + 1, len(kinds)):
        crashed = cut_after(log, entries)
        done.clear()
        for _ in range(2):
            with pytest.raises(Cancelled):
                await result_of(code, crashed)
        found = [body.KIND for body in bodies(crashed)]
        assert (found.count("context_updated"), found.count("obligation_settled")) == (1, 1)
