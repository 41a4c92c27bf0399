"""Merging a fork into its parent: what is taken, what is a conflict, and what the code does next. In memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuts import of_kind
from folding import refold
from seekpoint.producers import Effect, HistoryPoint, Node, Process, agent
from seekpoint.schemas import Lifecycle, MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    EffectsStand,
    Fenced,
    InvalidSetting,
    MergeConflict,
    OwnerAlive,
    ProcessFinished,
    Refused,
)

done: Counter[str] = Counter()


async def written(node: Node, process_id: str, **values: Any) -> None:
    """Write values to a process, or a message under the name ``said``."""
    async with node.open(process_id) as process:
        for key, value in values.items():
            await (process.say("user", value) if key == "said" else process.update(key, value))


async def test_what_only_the_fork_changed_is_taken_and_what_only_the_parent_changed_stays() -> None:
    """One entry says so; the fork stays as it is."""
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        await written(node, "parent", a=1, b=1, c=1, said="hello")
        async with node.fork("parent", "fork"):
            pass
        await written(node, "fork", a=2, new=[1], said="and so on")
        await written(node, "parent", b=3)
        fork = (await node.recover("fork")).state
        plan = await node.promote("fork", dry_run=True)
        assert (plan.taken, plan.kept, plan.conflicts) == (
            ("context.a", "context.new", "conversation"), ("context.b",), ()
        )  # fmt: skip
        assert (await node.promote("fork", reason="better", actor="ann")).taken == plan.taken
        state = (await node.recover("parent")).state
        assert state.context == {"a": 2, "b": 3, "c": 1, "new": [1]}
        assert [one.content for one in state.conversation] == ["hello", "and so on"]
        assert (await node.recover("fork")).state.hash == fork.hash
        [entry] = [one.entry async for one in node.entries("parent", kinds=["promoted"])]
        assert isinstance(entry.body, b.Promoted)
        assert (entry.actor, entry.body.fork_id, entry.body.fork_seq, entry.body.reason) == (
            "ann", "fork", fork.seq, "better"
        )  # fmt: skip
        assert refold(log, "parent").hash == state.hash


async def test_what_both_changed_is_a_conflict_until_somebody_says_who_wins() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await written(node, "parent", a=1, b=1, same=1)
        async with node.fork("parent", "fork"):
            pass
        await written(node, "fork", a=2, b=2, same=2)
        await written(node, "parent", a=3, b=3, same=2)
        with pytest.raises(MergeConflict) as refused:
            await node.promote("fork")
        assert refused.value.parts == ["context.a", "context.b"]
        assert (await node.recover("parent")).state.context == {"a": 3, "b": 3, "same": 2}
        plan = await node.promote("fork", dry_run=True)
        assert (plan.conflicts, plan.kept) == (("context.a", "context.b"), ("context.same",))
        with pytest.raises(MergeConflict) as refused:
            await node.promote("fork", prefer={"context.a": "fork"})
        assert refused.value.parts == ["context.b"]
        plan = await node.promote("fork", prefer={"context.a": "fork", "context.b": "parent"})
        assert plan.resolved == {"context.a": "fork", "context.b": "parent"}
        assert (await node.recover("parent")).state.context == {"a": 2, "b": 3, "same": 2}


@agent("work")
async def work(process: Process, order: int) -> str:
    """Two steps; the second one is not made before the gate."""
    await process.step("first", lambda: done.update(["first"]) or "one")
    answer = await process.gate("go")
    await process.update("answer", answer.outcome)
    return await process.step("second", lambda: done.update(["second"]) or "two")


async def test_the_parents_code_goes_on_from_what_the_fork_did() -> None:
    """Its calls answer, so nothing is done twice: the law of the fork's content, with an agent."""
    import asyncio

    done.clear()
    async with Node.in_memory(MemoryLog()) as node:
        run = asyncio.ensure_future(node.run(work, "parent", 1))
        async with asyncio.timeout(5):
            while "go:1" not in (await node.recover("parent", missing_ok=True)).state.waits_for:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        async with node.fork("parent", "fork"):
            pass
        await node.approve("fork", "go")
        assert await node.run(work, "fork") == "two"
        await node.promote("fork")
        merged = (await node.recover("parent")).state
        assert (merged.lifecycle, merged.finished) == (Lifecycle.RUNNING, False)  # so a worker takes it up
        assert await node.run(work, "parent") == "two"
        assert done == {"first": 1, "second": 1}
        assert (await node.recover("parent")).state.finished


@settings(max_examples=40, deadline=None)
@given(*[st.lists(st.tuples(st.sampled_from("abs"), st.integers(0, 2)), max_size=5)] * 2)
async def test_without_a_conflict_the_parent_gets_the_forks_content(
    before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """A law, for a parent that did nothing since."""
    async with Node.in_memory(MemoryLog()) as node:
        for process_id, writes in (("parent", before), ("fork", after)):
            async with node.open("parent") if process_id == "parent" else node.fork("parent", "fork") as process:
                await process.update("begun", value=True)
                for key, value in writes:
                    await (process.say("user", str(value)) if key == "s" else process.update(key, value))
        await node.promote("fork")
        states = [(await node.recover(one)).state for one in ("parent", "fork")]
        assert states[0].content_hash == states[1].content_hash


async def test_an_owner_that_looks_alive_is_fenced_only_where_that_is_asked_for() -> None:
    async with Node.in_memory(log := MemoryLog()) as node, Node.in_memory(log, node_id="other") as other:
        await written(node, "parent", a=1)
        async with node.fork("parent", "fork") as fork:
            await fork.update("a", 2)
        process = await other.open("parent")
        with pytest.raises(OwnerAlive):
            await node.promote("fork")
        await node.promote("fork", take_over=True)
        with pytest.raises(Fenced):
            await process.update("a", 3)
        assert (await node.recover("parent")).state.context == {"a": 2}


async def test_what_cannot_be_merged_is_refused() -> None:
    async with Node.in_memory(log := MemoryLog()) as node, Node.in_memory(log, node_id="other") as other:
        await written(node, "parent", a=1)
        with pytest.raises(Refused, match="no fork"):
            await node.promote("parent")
        async with node.fork("parent", "fork"):
            pass
        with pytest.raises(InvalidSetting):
            await node.promote("fork", prefer="mine")
        async with other.open("parent") as process:
            with pytest.raises(OwnerAlive):
                await node.promote("fork")
            await process.finish()
        with pytest.raises(ProcessFinished):
            await node.promote("fork")


async def pay(amount: int) -> str:
    done[f"paid {amount}"] += 1
    return f"paid {amount}"


async def take_back(amount: int, *, output: Any) -> None:
    done[f"took back {amount}"] += 1


@agent("pays")
async def pays(process: Process, can_undo: bool) -> list[str]:
    """Pay what a decision says, after a look if it is slow; say whether to go on; a fast run fails then."""
    how: dict[str, Any] = {"semantics": Effect.AT_MOST_ONCE, "compensate": take_back if can_undo else None}
    choice = await process.decide("choose", lambda request: {"amount": 10, "slow": False}, {"order": 1})
    if choice["slow"]:
        await process.step("look", lambda: done.update(["looked"]))
    receipt = await process.effect("pay", pay, choice["amount"], **how)
    if await process.step("go on", lambda: choice["slow"]):
        return [receipt, await process.step("last", lambda: "last")]
    raise ConnectionError("the bank is closed")


async def forked_and_run(node: Node, can_undo: bool, **answers: Any) -> None:
    """Run "parent", which fails behind its payment; fork it with other answers as "fork", and run that."""
    done.clear()
    with pytest.raises(ConnectionError):
        await node.run(pays, "parent", can_undo)
    async with node.fork("parent", "fork", answers=answers, effects="live"):
        pass
    assert (await node.run(pays, "fork"))[1] == "last"


async def test_an_effect_that_both_made_stands_where_the_forks_code_makes_it() -> None:
    """The fork's code makes it behind one call more: the parent's own record answers there, and nobody pays again."""
    async with Node.in_memory(log := MemoryLog()) as node:
        await forked_and_run(node, False, **{"choose:1": {"amount": 10, "slow": True}})
        await node.promote("fork", prefer="fork")
        assert await node.run(pays, "parent") == ["paid 10", "last"]
        assert done == {"paid 10": 2, "looked": 1}  # each of the two once
        assert len({one.idempotency_key for one in of_kind(log, b.EffectIntended, "parent")}) == 1


@pytest.mark.parametrize("can_undo", [False, True])
async def test_other_effects_of_the_fork_are_refused_until_the_parents_are_undone(can_undo: bool) -> None:
    """The parent's payment is a fact that the fork's code does not fit: without a refusal, it could never go on."""
    async with Node.in_memory(MemoryLog()) as node:
        await forked_and_run(node, can_undo, **{"choose:1": {"amount": 99, "slow": True}})
        seq = (await node.recover("parent")).state.seq
        for is_dry in (True, False):
            with pytest.raises(EffectsStand, match="made or undone") as refused:
                await node.promote("fork", prefer="fork", dry_run=is_dry)
            assert refused.value.keys == ["pay:1"]
        assert (await node.recover("parent")).state.seq == seq
        await node.promote("fork", prefer="parent")  # then nothing is taken
        if can_undo:
            await node.rewind("parent", HistoryPoint.before("pay:1"), effects="compensate")
            await node.promote("fork", prefer="fork")
            assert await node.run(pays, "parent") == ["paid 99", "last"]
            assert done == {"paid 10": 1, "took back 10": 1, "paid 99": 1, "looked": 1}


async def test_an_effect_that_the_parent_has_undone_since_is_not_made_true_by_its_fork() -> None:
    """The fork inherited a payment, then the parent failed and took it back: the fork's record is no fact any more."""
    async with Node.in_memory(MemoryLog()) as node:
        await forked_and_run(node, True, **{"go on:1": True})
        assert done == {"paid 10": 1, "took back 10": 1}
        for _ in range(2):
            with pytest.raises(EffectsStand) as refused:
                await node.promote("fork", prefer="fork")
            assert refused.value.keys == ["pay:1"]
            await node.rewind("parent", HistoryPoint.before("pay:1"))  # now it is forgotten


async def test_what_only_the_parent_paid_is_not_paid_again() -> None:
    """The calls become those of a fork from before the payment; the code asks for it: the parent's record answers."""
    async with Node.in_memory(MemoryLog()) as node:
        done.clear()
        with pytest.raises(ConnectionError):
            await node.run(pays, "parent", False)
        async with node.fork("parent", "fork", answers={"choose:1": {"amount": 10, "slow": True}}):
            pass
        await node.promote("fork", prefer="fork")
        assert await node.run(pays, "parent") == ["paid 10", "last"]
        assert done == {"paid 10": 1, "looked": 1}
