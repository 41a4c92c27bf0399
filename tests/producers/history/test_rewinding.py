"""Going back in a process: what its agent does next, what the outside sees, and what the entry says. In memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from folding import refold
from seekpoint.producers import Agent, Effect, HistoryPoint, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    EffectsStand,
    InvalidSetting,
    OwnerAlive,
    ProcessFinished,
    Refused,
    ReplayDivergence,
    UnknownProcess,
)

done: Counter[str] = Counter()
"""The ledger: what was done outside."""


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    done.clear()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def take_back(*arguments: Any, output: Any) -> None:
    done[f"taken back {arguments[0]}"] += 1


@agent("refund")
async def refund(process: Process, amount: int) -> Any:
    """Ask a model, pay what it says, then hang for as long as the ledger says so."""
    choice = await process.decide("triage", lambda request: done.update(["asked"]) or "pay", {"amount": amount})
    await process.say("assistant", choice)
    await process.update("choice", choice)
    if choice == "pay":

        async def pay(amount: int) -> str:
            done[f"paid {amount}"] += 1
            return "receipt"

        await process.effect("pay", pay, amount, semantics=Effect.AT_MOST_ONCE, compensate=take_back)
    else:
        await process.step("reject", lambda: done.update(["rejected"]))
    await process.step("close", close)
    return choice


async def close() -> str:
    done["closed"] += 1
    if "broken" in done:
        await asyncio.Event().wait()
    return "closed"


async def broken(node: Node, of: Agent = refund) -> None:
    """A run that has paid and then was cut off."""
    done["broken"] = 1
    run = asyncio.ensure_future(node.run(of, "p", 10))
    async with asyncio.timeout(5):
        while not done["closed"]:  # noqa: ASYNC110  # the ledger gives no event
            await asyncio.sleep(0.01)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    del done["broken"]


async def test_another_answer_changes_what_the_code_does_next(log: MemoryLog) -> None:
    """The decision is not made again; what followed it is forgotten; the effect stays, and is not made again."""
    async with Node.in_memory(log) as node:
        await broken(node)
        with pytest.raises(EffectsStand) as refused:
            await node.rewind("p", answers={"triage:1": "reject"})
        assert refused.value.keys == ["pay:1"]
        plan = await node.rewind("p", answers={"triage:1": "reject"}, effects="keep", reason="wrong", actor="ann")
        assert plan.effects == ("pay:1",)
        assert [one.key for one in plan.calls] == ["close:1"]
        assert await node.run(refund, "p") == "reject"
        assert done == {"asked": 1, "paid 10": 1, "rejected": 1, "closed": 2}
        [entry] = [one.entry async for one in node.entries("p", kinds=["rewound"])]
        assert isinstance(entry.body, b.Rewound)
        assert (entry.actor, entry.body.reason, entry.body.answers) == ("ann", "wrong", '["triage:1"]')
        assert refold(log, "p").hash == (await node.recover("p")).state.hash


async def test_what_followed_another_answer_is_compensated_first(log: MemoryLog) -> None:
    """Then its key may be used again: with a new idempotency key, the outside takes it for another payment."""
    async with Node.in_memory(log) as node:
        await broken(node)
        plan = await node.rewind("p", answers={"triage:1": "reject"}, effects="compensate")
        assert (plan.effects, plan.compensated) == ((), ("pay:1",))
        assert done["taken back 10"] == 1
        state = (await node.recover("p")).state
        assert "pay:1" not in state.calls
        assert state.forgotten["pay:1"] == 1
        assert not state.obligations
        await node.rewind("p", answers={"triage:1": "pay"})
        assert await node.run(refund, "p") == "pay"
        assert done == {"asked": 1, "paid 10": 2, "taken back 10": 1, "closed": 2}
        [first, second] = [
            one.entry.body async for one in node.entries("p", kinds=["effect_intended"])
            if isinstance(one.entry.body, b.EffectIntended) and one.entry.body.key == "pay:1"
        ]  # fmt: skip
        assert first.idempotency_key != second.idempotency_key


async def test_an_effect_without_a_compensation_is_not_compensated(log: MemoryLog) -> None:
    """Nothing is done at all: a person has to undo it, or to let it stay."""

    @agent("plain")
    async def plain(process: Process, given: int) -> None:
        await process.step("choose", lambda: "pay")
        await process.effect("pay", lambda: done.update(["paid"]))
        await process.step("close", close)

    async with Node.in_memory(log) as node:
        await broken(node, plain)
        seq = (await node.recover("p")).state.seq
        with pytest.raises(EffectsStand, match="no compensation"):
            await node.rewind("p", answers={"choose:1": "reject"}, effects="compensate")
        entries = [one.entry async for one in node.entries("p")]
        assert not any(isinstance(one.body, b.Rewound) for one in entries)
        assert (await node.recover("p")).state.seq == seq


async def test_a_dry_run_says_what_would_be_forgotten_and_writes_nothing(log: MemoryLog) -> None:
    """Also what it had cost."""
    async with Node.in_memory(log) as node:
        await broken(node)
        ends = [log.watermarks(partition) for partition in range(2)]
        plan = await node.rewind("p", HistoryPoint.before("pay:1"), dry_run=True)
        assert ends == [log.watermarks(partition) for partition in range(2)]
        now = (await node.recover("p")).state
        assert (plan.seq, plan.entries) == (now.seq, now.seq - plan.to_seq)
        assert (plan.effects, plan.compensated, plan.values) == (("pay:1",), (), ())
        assert {one.key for one in plan.calls} == {"close:1"}
        assert (plan.messages, plan.cost_usd, plan.turn) == (0, None, 0)


@pytest.mark.parametrize(
    ("mode", "context", "messages"),
    [
        ("both", {"a": 1}, ["one"]),
        ("conversation_only", {"a": 2}, ["one"]),
        ("code_only", {"a": 1}, ["one", "two"]),
    ],
)
async def test_a_mode_restores_its_part(log: MemoryLog, mode: str, context: Any, messages: list[str]) -> None:
    async with Node.in_memory(log) as node:
        async with node.open("p") as process:
            await process.update("a", 1)
            await process.say("user", "one")
            seq = process.state.seq
            await process.say("user", "two")
            await process.update("a", 2)
        await node.rewind("p", seq, mode=mode)
        state = (await node.recover("p")).state
        assert state.context == context
        assert [one.content for one in state.conversation] == messages
        assert refold(log, "p").hash == state.hash


async def test_a_summary_adds_a_message_and_changes_nothing_else(log: MemoryLog) -> None:
    async with Node.in_memory(log) as node:
        async with node.open("p") as process:
            await process.update("a", 1)
            await process.say("user", "one")
        await node.rewind("p", mode="summarize", note="begin anew")
        state = (await node.recover("p")).state
        assert state.context == {"a": 1}
        assert [(one.role, one.content) for one in state.conversation] == [("user", "one"), ("system", "begin anew")]


async def test_an_agent_goes_on_after_its_conversation_was_cut(log: MemoryLog) -> None:
    """Its recorded calls still answer it; what it says next comes after what is left."""
    async with Node.in_memory(log) as node:
        await broken(node)
        await node.rewind("p", HistoryPoint.after("triage:1"), mode="conversation_only")
        assert not (await node.recover("p")).state.conversation
        assert await node.run(refund, "p") == "pay"
        assert done == {"asked": 1, "paid 10": 1, "closed": 2}


async def test_an_effect_is_not_made_again_by_a_permissive_run(log: MemoryLog) -> None:
    """The code asks for another amount than the recorded one: it would pay twice."""
    async with Node.in_memory(log) as node:
        await broken(node)

        @agent("refund")
        async def changed(process: Process, amount: int) -> Any:
            await process.decide("triage", lambda request: "pay", {"amount": amount})

            async def pay(amount: int) -> str:
                done[f"paid {amount}"] += 1
                return "receipt"

            return await process.effect("pay", pay, 20, semantics=Effect.AT_MOST_ONCE)

        with pytest.raises(ReplayDivergence):
            await node.run(changed, "p", replay="permissive")
        assert "paid 20" not in done


@pytest.mark.parametrize(
    ("point", "seq"),
    [
        (HistoryPoint.seq(2), 2),
        (HistoryPoint.before("b:1"), 3),
        (HistoryPoint.after("b:1"), 4),
        (HistoryPoint.turn(1), 5),
        (HistoryPoint.time(4.5e9), 6),
        (HistoryPoint.before("c:1"), 5),
    ],
)
def test_a_point_has_a_seq(point: HistoryPoint, seq: int) -> None:
    """Of a call that was made twice, the newest one counts; entries without a seq have no say."""
    bodies: list[Any] = [
        b.AgentStarted("a"), b.Sampled(key="b:1", position=1), b.Rewound(1), b.Sampled(key="b:1", position=1),
        b.TurnEnded(1), b.StepEnded(key="c:1", position=1, outcome="succeeded"), b.Signal("go"),
    ]  # fmt: skip
    assert point.seq_in(_entries(bodies), "p") == seq


@pytest.mark.parametrize("point", [HistoryPoint.before("x:1"), HistoryPoint.turn(3), HistoryPoint.time(0.5)])
def test_a_point_that_is_not_there_is_refused(point: HistoryPoint) -> None:
    with pytest.raises(Refused, match="no such moment"):
        point.seq_in(_entries([b.AgentStarted("a")]), "p")


def _entries(bodies: list[Any]) -> list[Any]:
    from seekpoint.schemas.bodies.entry import Entry

    return [
        Entry(bytes(16), "p", None if body.EXTERNAL else seq, 1, b"c", None, seq * 1_000_000, None, None, None, body)
        for seq, body in enumerate(bodies, 1)
    ]


async def test_what_cannot_be_rewound_is_refused_and_left_alone(log: MemoryLog) -> None:
    async with Node.in_memory(log) as node, Node.in_memory(log, node_id="other") as other:
        with pytest.raises(UnknownProcess):
            await node.rewind("p", 1)
        async with other.open("p") as process:
            await process.update("a", 1)
            with pytest.raises(OwnerAlive):
                await node.rewind("p", 1)
            await process.finish("end")
        with pytest.raises(ProcessFinished, match="fork"):
            await node.rewind("p", 1)
        for how in ({"mode": "all"}, {"effects": "drop"}, {"note": "n"}, {}, {"mode": "summarize"}):
            with pytest.raises(InvalidSetting):
                await node.rewind("p", **how)  # type: ignore[arg-type]
        with pytest.raises(InvalidSetting):
            await node.rewind("p", 1, mode="code_only", answers={"a:1": 1})


async def test_an_effect_that_was_open_at_the_moment_has_the_outcome_that_it_got_since(log: MemoryLog) -> None:
    """Also if its turn is over, so that the state has dropped it: a rewind into the middle of an effect is no doubt."""

    @agent("turning")
    async def turning(process: Process, given: int) -> None:
        async for turn in process.turns():
            await process.effect("pay", lambda: done.update(["paid"]) or "receipt")
            if turn.number == 2:
                await process.step("close", close)
                break

    async with Node.in_memory(log) as node:
        await broken(node, turning)
        [intended, *_] = [one.entry async for one in node.entries("p", kinds=["effect_intended"])]
        assert intended.seq is not None
        await node.rewind("p", intended.seq)
        assert (await node.recover("p")).state.calls["1/pay:1"].status == "succeeded"
        await node.run(turning, "p")
        assert done["paid"] == 2  # once in each turn


async def test_a_process_that_went_on_is_not_rewound(log: MemoryLog) -> None:
    """Who looked at a plan goes back from what it showed, or not at all."""
    async with Node.in_memory(log) as node:
        await broken(node)
        plan = await node.rewind("p", HistoryPoint.after("triage:1"), dry_run=True)
        async with node.open("p") as process:
            await process.update("x", 1)
        with pytest.raises(Refused, match="the process went on, nothing was rewound"):
            await node.rewind("p", plan.to_seq, expected_seq=plan.seq)
        now = (await node.recover("p")).state
        assert ("close:1" in now.calls, now.owner) == (True, None)
        again = await node.rewind("p", plan.to_seq, expected_seq=now.seq)
        assert (again.to_seq, again.seq) == (plan.to_seq, now.seq)
