"""What a promotion makes of calls: those of the fork are shown as the parent's, and no child is lost. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from seekpoint.producers import HistoryPoint, Node, Process, agent
from seekpoint.producers.durable.replay.call_records import CallRecord
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.producers.history.inherited_calls import calls_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import ChildrenStand, JournalGap


async def cut_off_at_gate(node: Node, agent_: Any, process_id: str, waits: str) -> None:
    """Run the process until it, or its child, waits at a gate; cut the run off there."""
    run = asyncio.ensure_future(node.run(agent_, process_id))
    async with asyncio.timeout(10):
        while not (await node.recover(waits, missing_ok=True)).state.waits_for:
            assert not run.done(), run
            await asyncio.sleep(0.005)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def calls(node: Node, process_id: str, gone: str = "") -> list[CallRecord]:
    """Return the calls that ``seekpoint steps`` shows. Of the process ``gone`` the log has no entries any more."""
    names, found = [process_id], dict[str, list[Entry]]()
    for name in names:
        found[name] = [*applied([one async for one in node.entries(name)])]
        names += [
            other
            for one in found[name]
            for other in (getattr(one.body, "parent_id", None), getattr(one.body, "fork_id", None))
            if other and other not in names
        ]

    def read(name: str) -> list[Entry]:
        if name == gone:
            raise JournalGap("trimmed", process_id=name)
        return found[name]

    return calls_of(read, process_id)


def shown(found: list[CallRecord]) -> list[tuple[Any, ...]]:
    origins = ("inherited_from", "promoted_from", "answered_by")
    return [(one.key, one.status, one.output, *(one.facts.get(name) for name in origins)) for one in found]


@agent("choosing")
async def choosing(process: Process, given: None = None) -> str:
    """Look, decide, then wait for a person or reject."""
    await process.step("look", lambda: "broken")
    if await process.decide("choose", lambda request: "ask", {"order": 1}) == "ask":
        return (await process.gate("go")).outcome
    await process.update("rejected", value=True)
    await process.step("reject", lambda: "rejected")
    return "rejected"


async def test_the_calls_of_a_promoted_fork_are_shown_in_its_parent() -> None:
    """With the fork that made them; what it did after the promotion is not, and a fork of the parent inherits them."""
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, choosing, "p", "p")
        async with node.fork("p", "q", answers={"choose:1": "reject"}):
            pass
        assert await node.run(choosing, "q") == "rejected"
        before = [("look:1", "succeeded", "broken", None, None, None), ("go:1", "started", None, None, None, None)]
        assert [one for one in shown(await calls(node, "p")) if one[0] != "choose:1"] == before
        await node.promote("q", prefer={"calls": "fork"})
        expected = [
            before[0], ("choose:1", "succeeded", "reject", None, None, "q"), before[1],
            ("reject:1", "succeeded", "rejected", None, "q", None),
        ]  # fmt: skip
        assert shown(await calls(node, "p")) == expected
        assert await node.run(choosing, "p") == "rejected"
        assert shown(await calls(node, "p")) == expected
        async with node.fork("p", "r"):
            pass
        inherited = [one[3] for one in shown(await calls(node, "r"))]
        assert inherited == ["p", "p", "p", "q"]


async def test_the_answers_of_a_fork_whose_entries_are_gone_are_shown_all_the_same() -> None:
    """The promotion has them. Calls that only the fork made are missing then."""
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, choosing, "p", "p")
        async with node.fork("p", "q", answers={"choose:1": "reject"}):
            pass
        await node.run(choosing, "q")
        await node.promote("q", prefer="fork")
        assert [(one[0], one[2], one[5]) for one in shown(await calls(node, "p", gone="q"))] == [
            ("look:1", "broken", None), ("choose:1", "reject", "q"), ("go:1", None, None)
        ]  # fmt: skip


async def test_a_promotion_that_takes_other_parts_shows_no_calls_of_the_fork() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, choosing, "p", "p")
        async with node.fork("p", "q", answers={"choose:1": "reject"}):
            pass
        await node.run(choosing, "q")
        before = shown(await calls(node, "p"))
        plan = await node.promote("q", prefer="parent")
        assert plan.taken == ("context.rejected",)
        assert shown(await calls(node, "p")) == before


async def test_the_calls_of_a_fork_that_was_promoted_into_a_promoted_fork_are_shown_too() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, choosing, "p", "p")
        async with node.fork("p", "q", at=HistoryPoint.before("choose:1")):
            pass
        await cut_off_at_gate(node, choosing, "q", "q")
        async with node.fork("q", "r", answers={"choose:1": "reject"}):
            pass
        assert await asyncio.wait_for(node.run(choosing, "r"), 10) == "rejected"
        await node.promote("r", prefer="fork")
        await node.promote("q", prefer="fork")
        assert shown(await calls(node, "p"))[-1] == ("reject:1", "succeeded", "rejected", None, "r", None)
        assert await asyncio.wait_for(node.run(choosing, "p"), 10) == "rejected"


@agent("waiting")
async def waiting(process: Process, given: None = None) -> str:
    return (await process.gate("end")).outcome


@agent("spawning")
async def spawning(process: Process, given: None = None) -> Any:
    """Spawn a child whose id is this one's own, if the decision says so."""
    name = await process.decide("choose", lambda request: "parents", {"order": 1})
    if name == "none":
        return await process.step("other", lambda: "other")
    return await process.spawn(waiting, f"{process.process_id}.{name}").result()


@pytest.mark.parametrize("other", ["none", "forks"])
async def test_a_promotion_that_would_lose_a_running_child_is_refused(other: str) -> None:
    """The fork spawned another one under its key, or none. Once the child has ended, the fork is taken."""
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, spawning, "p", "p.parents")
        async with node.fork("p", "q", answers={"choose:1": other}, effects="live"):
            pass
        await node.approve("q.forks", "end", in_advance=True)
        assert await node.run(spawning, "q") in ("other", "approved")
        for is_dry in (True, False):
            with pytest.raises(ChildrenStand, match=r"cancel p\.parents") as refused:
                await node.promote("q", prefer="fork", dry_run=is_dry)
            assert refused.value.children == ["p.parents"]
        await node.promote("q", prefer="parent")
        await node.approve("p.parents", "end")
        assert await node.run(waiting, "p.parents") == "approved"
        await node.promote("q", prefer="fork")
        assert await node.run(spawning, "p") in ("other", "approved")


async def test_a_child_that_both_have_is_no_reason_to_refuse() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await cut_off_at_gate(node, spawning, "p", "p.parents")
        async with node.fork("p", "q"):
            pass
        async with node.open("q") as process:
            await process.update("seen", value=True)
        await node.promote("q")
        assert (await node.recover("p")).state.context == {"seen": True}
        async with node.fork("p", "r", answers={"choose:1": "parents"}, at=(await node.recover("p")).state.seq):
            pass
        await node.promote("r", prefer="fork")
        await node.approve("p.parents", "end", in_advance=True)
        assert await node.run(spawning, "p") == "approved"
