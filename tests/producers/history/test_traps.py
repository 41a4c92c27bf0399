"""Moments at which going back goes wrong elsewhere: inside nested calls, below a fork of a fork. In memory.

Each test names the system that fell into its trap.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from cuts import cut_after, entries_of, of_kind, until
from folding import refold
from seekpoint.producers import Effect, HistoryPoint, Node, Process, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import EffectRefused, Refused

done: Counter[str] = Counter()
"""The ledger: how often each innermost body ran."""
hangs = [False]

LEAVES = ("before", "a", "b", "c", "left-1", "left-2", "right-1", "right-2", "child-1", "child-2", "last")
"""The innermost calls of the agent below, by the name of each."""


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    done.clear()
    hangs[0] = False


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def tell(name: str) -> str:
    done[name] += 1
    if name == "last" and hangs[0]:
        await asyncio.Event().wait()
    return name


async def branch(process: Process, side: str) -> list[str]:
    return [await process.step(f"{side}-{number}", tell, f"{side}-{number}") for number in (1, 2)]


@agent("child")
async def child(process: Process, given: str) -> list[str]:
    """Two steps."""
    return [await process.step(f"child-{number}", tell, f"child-{number}") for number in (1, 2)]


@agent("nested")
async def nested(process: Process, given: None) -> list[Any]:
    """Steps in a step in a step, in branches and in a child whose id is derived from this one's."""

    async def inner() -> list[str]:
        return [await process.step(name, tell, name) for name in "bc"]

    async def outer() -> list[Any]:
        return [await process.step("a", tell, "a"), await process.step("inner", inner)]

    found: list[Any] = [await process.step("before", tell, "before"), await process.step("outer", outer)]
    found.append(await process.gather(branch(process, "left"), branch(process, "right")))
    found.append(await process.spawn(child, f"{process.process_id}.1", "x").result())
    found.append(await process.step("last", tell, "last"))
    return found


WHOLE: list[Any] = [
    "before", ["a", ["b", "c"]], [["left-1", "left-2"], ["right-1", "right-2"]], ["child-1", "child-2"], "last"
]  # fmt: skip


async def cut_off(node: Node) -> None:
    """Run "p" until its last step hangs, and end it there."""
    hangs[0] = True
    run = asyncio.ensure_future(node.run(nested, "p", None))
    await until(lambda: done["last"] or run.done())
    assert not run.done(), run.exception()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    hangs[0] = False


def ended_by(log: MemoryLog, seq: int, process_id: str = "p") -> set[str]:
    """Return the names of the leaves whose ends the process had at ``seq``."""
    keys = {
        entry.body.key: entry.seq or 0
        for entry in entries_of(log, process_id)
        if isinstance(entry.body, b.StepEnded) and entry.body.key is not None
    }
    return {key.rpartition("/")[2].partition(":")[0] for key, at in keys.items() if at <= seq} & {*LEAVES}


def began_at(log: MemoryLog) -> int:
    return next(entry.seq or 0 for entry in entries_of(log) if isinstance(entry.body, b.AgentStarted))


async def test_a_rewind_into_nested_calls_goes_on_there(log: MemoryLog) -> None:
    """At every entry: what had ended inside a call that had not is not made again, what had not is made once.

    LangGraph #8458: going back to a moment inside a subgraph runs the whole subgraph again from its start.
    """
    async with Node.in_memory(log) as node:
        await cut_off(node)
    whole, last = log, (entries_of(log)[-1].seq or 0)
    children = {"child-1", "child-2"}
    for seq in range(began_at(whole), last):
        again = cut_after(whole, whole.watermarks(0).high)
        ended = ended_by(again, seq)
        async with Node.in_memory(again) as node:
            done.clear()
            await node.rewind("p", seq)
            assert await node.run(nested, "p") == WHOLE
        assert done == {name: 1 for name in LEAVES if name not in ended | children}, seq
        assert refold(again, "p").finished


@pytest.mark.parametrize("permissive", [False, True])
async def test_a_fork_inside_nested_calls_goes_on_there(log: MemoryLog, permissive: bool) -> None:
    """At every entry: the code asks for a child of another id, and the parent's child answers it all the same.

    LangGraph #8458: a fork of the parent has another id, the subgraph's place derives from it, and its checkpoint is
    not found.
    """
    async with Node.in_memory(log) as node:
        assert await node.run(nested, "p", None) == WHOLE
        last = (await node.recover("p")).state.seq
        spawned = next(entry.seq or 0 for entry in entries_of(log) if isinstance(entry.body, b.ChildSpawned))
        for seq in range(began_at(log), last):
            done.clear()
            async with node.fork("p", f"q{seq}", at=seq, effects="live", permissive=permissive):
                pass
            assert await node.run(nested, f"q{seq}") == WHOLE
            expected = {*LEAVES} - ended_by(log, seq)
            expected -= {"child-1", "child-2"} if permissive or seq >= spawned else set()
            assert done == ({} if permissive else dict.fromkeys(expected, 1)), seq
            has_own = (await node.recover(f"q{seq}.1", missing_ok=True)).known
            assert has_own is not (permissive or seq >= spawned)


async def test_a_rerun_of_code_with_children_is_answered_by_the_record(log: MemoryLog) -> None:
    """The ids of its children derive from the id of the process, which a rerun does not have. LangGraph #8458."""
    async with Node.in_memory(log) as node:
        await node.run(nested, "p", None)
        done.clear()
        found = await node.rerun(nested, "p")
        assert (found.status, found.error, found.result) == ("finished", None, WHOLE)
        twice = await node.rerun(nested, "p~rerun", "again")
        assert (twice.status, twice.is_same_outcome) == ("finished", True)
    assert not done


async def test_a_parent_takes_over_the_children_of_its_fork(log: MemoryLog) -> None:
    """After a promotion, the code of the parent is answered by the child that the fork spawned. LangGraph #8458."""
    async with Node.in_memory(log) as node:
        await cut_off(node)
        await node.rewind("p", HistoryPoint.before("child:1"))
        async with node.fork("p", "q", effects="live"):
            pass
        assert await node.run(nested, "q") == WHOLE
        done.clear()
        await node.promote("q")
        assert await node.run(nested, "p") == WHOLE
        assert not done


async def test_a_child_is_told_apart_from_others_whose_ids_end_alike(log: MemoryLog) -> None:
    """A record answers only if both ids have the same ending behind a separator, the same agent and the same input."""
    asked = [("other.1", "y"), ("p11", "x"), ("p.1", "x")]

    @agent("ids")
    async def ids(process: Process, given: None) -> list[Any]:
        names = [(name.replace("p", process.process_id), text) for name, text in asked]
        return [await process.spawn(echo, name, text).result() for name, text in names]

    @agent("echo")
    async def echo(process: Process, given: str) -> str:
        return process.process_id

    async with Node.in_memory(log) as node:
        assert await node.run(ids, "p", None) == ["other.1", "p11", "p.1"]
        asked[:] = [("p1", "x"), ("p.1", "x"), ("p.11", "x"), ("p.2", "y"), ("other.1", "y")]
        async with node.fork("p", "q", at=HistoryPoint.start(), effects="live", permissive=True):
            pass
        assert await node.run(ids, "q") == ["q1", "p.1", "q.11", "q.2", "other.1"]


async def test_a_rewind_inside_a_child_goes_on_there_for_its_parent(log: MemoryLog) -> None:
    """The child goes back alone; its parent, which waits for it, gets the result of what it does then."""
    stops = [True]

    @agent("hanging child")
    async def hanging(process: Process, given: str) -> list[str]:
        found = [await process.step(name, tell, name) for name in ("child-1", "child-2")]
        if stops[0]:
            done["stopped"] += 1
            await asyncio.Event().wait()
        return found

    @agent("waiting")
    async def waiting(process: Process, given: None) -> Any:
        return [await process.step("before", tell, "before"), await process.spawn(hanging, "p.1", "x").result()]

    async with Node.in_memory(log) as node:
        run = asyncio.ensure_future(node.run(waiting, "p", None))
        await until(lambda: done["stopped"] or run.done())
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await node.rewind("p.1", HistoryPoint.after("child-1:1"))
        stops[0] = False
        done.clear()
        assert await node.run(waiting, "p") == ["before", ["child-1", "child-2"]]
    assert done == {"child-2": 1}


async def test_a_gate_before_which_somebody_went_back_asks_again(log: MemoryLog) -> None:
    """In a nested call too; what it was answered then answers neither a rewind nor a fork.

    LangGraph #7038: after going back, an interrupt inside a subgraph returned the former answer instead of asking.
    """

    @agent("asking")
    async def asking(process: Process, given: None) -> Any:
        async def outer() -> str:
            await process.step("a", tell, "a")
            return (await process.gate("go")).outcome

        return [await process.step("outer", outer), await process.step("last", tell, "last")]

    async with Node.in_memory(log, clock=VirtualClock(patience_s=0.01)) as node:
        hangs[0] = True
        run = asyncio.ensure_future(node.run(asking, "p", None))
        await until(lambda: of_kind(log, b.GateOpened))
        await node.approve("p", "go")
        await until(lambda: done["last"])
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        hangs[0] = False
        opened = next(entry.seq or 0 for entry in entries_of(log) if isinstance(entry.body, b.GateOpened))
        async with node.fork("p", "q", at=opened):
            pass
        await node.rewind("p", opened)
        for process_id in "pq":
            run = asyncio.ensure_future(node.run(asking, process_id))
            await until(lambda one=process_id: entries_of(log, one)[-1].body == b.LifecycleChanged("awaiting"))  # type: ignore[misc]
            assert not run.done()
            await node.deny(process_id, "go")
            assert await asyncio.wait_for(run, 10) == ["denied", "last"]
    assert done == {"a": 1, "last": 3}


# --- forks of forks
@agent("counting")
async def counting(process: Process, given: None) -> list[str]:
    """Five steps, of which the third one is an effect."""
    found = []
    for number in range(1, 6):
        if number == 3:
            found.append(await process.effect("pay", pay, "goods", semantics=Effect.AT_MOST_ONCE))
        else:
            found.append(await process.step(f"s{number}", partial(tell, f"s{number}")))
    return found


async def pay(what: str) -> str:
    done[f"paid {what}"] += 1
    return what


FIVE = ["s1", "s2", "goods", "s4", "s5"]


async def test_a_fork_of_a_fork_of_a_fork_begins_below_all_of_them(log: MemoryLog) -> None:
    """A moment before a call that three generations inherit is the first one's; before one that two inherit, the
    second one's. What answers is what led to the fork that was named, and nothing is done twice.

    ActiveGraph can fork a fork only at events that its own log has, so not below the horizon of a compaction.
    """
    async with Node.in_memory(log) as node:
        assert await node.run(counting, "p", None) == FIVE
        for child, parent, at, effects in (("q", "p", "s1:1", "live"), ("r", "q", "s2:1", "refused")):
            async with node.fork(parent, child, at=HistoryPoint.after(at), effects=effects):
                pass
            if child == "q":
                assert await node.run(counting, "q") == FIVE
        async with node.fork("r", "s", at=HistoryPoint.after("s2:1")):
            pass
        origins = {}
        for key in ("s1:1", "s2:1"):
            plan = await node.plan_fork("s", at=HistoryPoint.before(key), effects="recorded")
            origins[key] = (plan.parent_id, plan.later_effects)
        assert origins == {"s1:1": ("p", ()), "s2:1": ("q", ())}
        with pytest.raises(Refused, match="no such moment"):  # it lies behind the moment at which r left q
            await node.plan_fork("s", at=HistoryPoint.before("s4:1"))
        done.clear()
        async with node.fork("s", "t", at=HistoryPoint.before("s1:1"), permissive=True):
            pass
        with pytest.raises(EffectRefused):
            await node.run(counting, "t")
        lineage = (await node.recover("t")).state.lineage
    assert (lineage.parent_id, done) == ("p", {})


async def test_a_fork_is_the_same_wherever_in_the_family_it_is_asked_for(log: MemoryLog) -> None:
    """A fork of a fork at a moment that it inherited has the content of the parent then, whichever one is named."""
    async with Node.in_memory(log) as node:
        await node.run(counting, "p", None)
        names = ["p"]
        for number in range(3):
            async with node.fork(names[-1], f"q{number}", at=HistoryPoint.after("s4:1")):
                names.append(f"q{number}")
        for key in ("s1:1", "s2:1", "pay:1", "s4:1"):
            for kind in (HistoryPoint.before, HistoryPoint.after):
                hashes = set()
                for name in names:
                    async with node.fork(name, f"{name} {kind(key)}", at=kind(key)) as fork:
                        hashes.add(fork.state.content_hash)
                assert len(hashes) == 1, (key, kind)
