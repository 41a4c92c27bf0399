"""A redrive with a mended request: what is made again may be asked something else, and the old request stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counted_steps import Counted, Declined, fails
from cuts import of_kind
from seekpoint.producers import Node, Process, agent, check_replay
from seekpoint.producers.durable.replay.call_records import CallRecord, asked
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused, ReplayDivergence

OLD, NEW = {"prompt": "far too long"}, {"prompt": "short"}


def asking(kind: str, work: Any, asks: Any, look: int = 1) -> Any:
    """An agent that looks, and then asks by a step or by a decision."""

    @agent("asker", version="1")
    async def asker(process: Process, _: Any) -> Any:
        await process.step("look", lambda number: number, look)
        if kind == "step":
            return await process.step("ask", work, asks)
        return await process.decide("ask", work, asks)

    return asker


async def call(node: Node, key: str = "ask:1") -> CallRecord:
    """The call as ``seekpoint steps`` has it."""
    entries = [one.entry async for one in node.entries("p")]
    (found,) = [one for one in asked(applied(entries)) if one.key == key]
    return found


@pytest.mark.parametrize("kind", ["step", "decision"])
async def test_a_failed_call_that_is_made_again_takes_a_mended_request(node: Node, kind: str) -> None:
    """It is answered by the new request from then on; ``steps`` and the history have both."""
    work = Counted(Declined("too long"), "yes")
    await fails(node, asking(kind, work, OLD))
    mended = asking(kind, work, NEW)
    await fails(node, mended, kind=ReplayDivergence)
    assert await node.run(mended, "p", retry_failed=["ask:1"]) == "yes"
    found = await call(node)
    old, new = ([OLD], [NEW]) if kind == "step" else (OLD, NEW)
    assert (found.input, found.facts["asked_before"], found.to_dict()["asked_before"]) == (new, [old], [old])
    assert len(found.attempts) == 2
    history = [one async for one in node.entries("p")]
    assert (await check_replay(mended, history)).ok
    assert not (await check_replay(asking(kind, work, OLD), history)).ok


async def test_the_request_that_was_made_again_counts_from_then_on(node: Node, log: MemoryLog) -> None:
    """The redrive opens the call once: after the new attempt has failed, the old request is another one."""
    work = Counted(Declined("too long"), Declined("still too long"), "yes")
    await fails(node, asking("step", work, OLD))
    await fails(node, asking("step", work, NEW), retry_failed=["ask:1"])
    await fails(node, asking("step", work, OLD), kind=ReplayDivergence)
    assert await node.run(asking("step", work, {"prompt": "s"}), "p", retry_failed=["ask:1"]) == "yes"
    assert (await call(node)).facts["asked_before"] == [[OLD], [NEW]]
    assert len(of_kind(log, b.CallsSetAside)) == 2


@pytest.mark.parametrize("kind", ["step", "decision"])
async def test_a_call_in_doubt_takes_a_mended_request_once_it_is_redriven(log: MemoryLog, kind: str) -> None:
    """Before that it diverges: nobody has said that what it asked does not matter."""

    async def hangs(asks: Any) -> Any:
        await asyncio.Event().wait()

    async with Node.in_memory(log) as node:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.run(asking(kind, hangs, OLD), "p"), 0.3)
        assert (await node.recover("p")).state.calls["ask:1"].status == "started"
        mended = asking(kind, Counted("yes"), NEW)
        await fails(node, mended, kind=ReplayDivergence)
        await node.redrive("p", in_doubt=True)
        assert await node.run(mended, "p", retry_failed=True) == "yes"
        assert (await call(node)).facts["asked_before"] != []


async def test_only_what_was_set_aside_takes_another_request(node: Node) -> None:
    """A call that succeeded before it, and another kind of call under its key, diverge as ever."""
    work = Counted(Declined("too long"), "yes")
    await fails(node, asking("step", work, OLD))
    await fails(node, asking("step", work, NEW, look=2), kind=ReplayDivergence, retry_failed=["ask:1"])
    await fails(node, asking("decision", work, NEW), kind=ReplayDivergence, retry_failed=True)
    assert await node.run(asking("step", work, NEW), "p") == "yes"


async def test_a_call_that_succeeded_is_not_set_aside_by_its_key(node: Node) -> None:
    """Nor is one that was never made."""
    work = Counted(Declined("too long"), "yes")
    await fails(node, asking("step", work, OLD))
    for key in ("look:1", "none:1"):
        await fails(node, asking("step", work, NEW), kind=Refused, retry_failed=[key])
