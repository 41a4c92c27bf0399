"""Forks of an agent's process: what they inherit, what they make anew, what they never do outside. In memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cuts import bodies, entries_of
from seekpoint.producers import Agent, Node, Process, VirtualClock, agent
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.producers.history.history_points import HistoryPoint
from seekpoint.producers.history.inherited_calls import calls_of
from seekpoint.schemas import Lifecycle, MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import EffectRefused, InvalidSetting, JournalGap, LimitExceeded, Refused


class Outside:
    """What the agent's bodies did outside, and what they ask the world."""

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.looked: list[str] = []

    async def look(self, order: str) -> str:
        self.looked.append(order)
        return f"{order} is broken"

    async def choose(self, request: Any) -> Any:
        self.looked.append("choose")
        return {"amount": 10}

    async def pay(self, amount: int, *, idempotency_key: str = "") -> str:
        self.ledger.append(f"{amount} by {idempotency_key}")
        return f"paid {amount}"

    def refunder(self) -> Agent:
        """Look, decide, pay, tell: a step, a sample, a decision, an at-most-once effect and a step."""

        @agent("refunder")
        async def run(process: Process, given: str) -> Any:
            found = await process.step("look", self.look, given)
            await process.now()
            choice = await process.decide("choose", self.choose, {"about": found})
            await process.update("choice", choice)
            paid = await process.effect("pay", self.pay, choice["amount"], semantics="at_most_once")
            await process.step("tell", self.look, paid)
            return paid

        return run


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


def seq_of(log: MemoryLog, kind: type[b.Body], process_id: str = "p") -> int:
    """Return the seq of the first entry of a kind."""
    return next(entry.seq or 0 for entry in entries_of(log, process_id) if isinstance(entry.body, kind))


async def finished(node: Node, outside: Outside) -> None:
    """Run the agent as "p", to its end."""
    assert await node.run(outside.refunder(), "p", "o-1") == "paid 10"
    outside.looked.clear()


async def begun(node: Node, process_id: str, parent: str = "p", **how: Any) -> None:
    """Fork, and leave the fork for whoever runs it."""
    async with node.fork(parent, process_id, **how):
        pass


async def test_a_fork_makes_no_effects_unless_it_is_told_to(log: MemoryLog) -> None:
    """The effect is not begun, and the error says which and how to go on. The parent is not changed."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        before, ledger = len(entries_of(log)), list(outside.ledger)
        await begun(node, "q", at=seq_of(log, b.EffectIntended) - 1, reason="what if")
        with pytest.raises(EffectRefused, match="fork with effects=recorded") as refused:
            await node.run(outside.refunder(), "q")
        assert (refused.value.key, refused.value.kind, refused.value.policy) == ("pay:1", "effect", "refused")
        lineage = (await node.recover("q")).state.lineage
    assert (lineage.parent_id, lineage.effects, lineage.reason) == ("p", "refused", "what if")
    assert (outside.ledger, outside.looked, len(entries_of(log))) == (ledger, [], before)
    assert not any(isinstance(one, b.EffectIntended) for one in bodies(log, "q"))


async def test_recorded_effects_answer_equal_requests_and_no_others(log: MemoryLog) -> None:
    """The parent's payment answers the same one; after another choice, another amount is refused."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        at, ledger = seq_of(log, b.DecisionMade), list(outside.ledger)
        await begun(node, "same", at=at, effects="recorded")
        assert await node.run(outside.refunder(), "same") == "paid 10"
        assert outside.looked == ["paid 10"]
        await begun(node, "other", at=at, effects="recorded", answers={"choose:1": {"amount": 99}})
        with pytest.raises(EffectRefused):
            await node.run(outside.refunder(), "other")
    assert outside.ledger == ledger


async def test_a_live_fork_acts_with_keys_of_its_own(log: MemoryLog) -> None:
    """The outside system can tell the fork's payment from the parent's."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        answers = {"choose:1": {"amount": 7}}
        await begun(node, "q", at=seq_of(log, b.DecisionMade), effects="live", answers=answers)
        assert await node.run(outside.refunder(), "q") == "paid 7"
    assert outside.ledger == ["10 by p/pay:1", "7 by q/pay:1"]
    forked = bodies(log, "q")[1]
    assert (forked.answers, forked.effects) == ('["choose:1"]', "live")


async def test_a_permissive_fork_repeats_its_parent_without_running_anything(log: MemoryLog) -> None:
    """At every point of the parent's history: equal requests of all kinds are answered, so no body runs."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        ledger, last = list(outside.ledger), seq_of(log, b.Finished)
        for at in range(1, last):
            await begun(node, f"q{at}", at=at, permissive=True)
            past = (await node.recover("p", at_seq=at)).state
            forked = (await node.recover(f"q{at}", at_seq=1)).state
            assert (forked.values_json, forked.lifecycle) == (past.values_json, past.lifecycle)
            if at > seq_of(log, b.AgentStarted):
                assert await node.run(outside.refunder(), f"q{at}") == "paid 10"
                assert not any(
                    isinstance(one, b.Sampled | b.StepEnded | b.DecisionMade) for one in bodies(log, f"q{at}")
                )
    assert (outside.ledger, outside.looked) == (ledger, [])


async def test_what_a_permissive_fork_does_anew_is_written_to_it_only(log: MemoryLog) -> None:
    """After another answer: the equal look is answered, the other payment is refused or made, the rest is new."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        before = len(entries_of(log))
        how: dict[str, Any] = {"permissive": True, "effects": "live", "answers": {"choose:1": {"amount": 3}}}
        await begun(node, "q", at=seq_of(log, b.DecisionMade), **how)
        assert await node.run(outside.refunder(), "q") == "paid 3"
        assert await node.run(outside.refunder(), "q") == "paid 3"
    assert (outside.looked, len(entries_of(log))) == (["paid 3"], before)
    made = {one.key for one in bodies(log, "q") if isinstance(one, b.StepEnded | b.EffectSettled)}
    assert made == {"pay:1", "tell:1"}


async def test_a_fork_without_a_policy_to_change_has_its_parents_content(log: MemoryLog) -> None:
    """O7: whatever the point, the content hash is that of the parent then."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        for at in range(1, seq_of(log, b.Finished)):
            async with node.fork("p", f"q{at}", at=at) as fork:
                assert fork.state.content_hash == (await node.recover("p", at_seq=at)).state.content_hash


async def test_a_fork_of_a_fork_inherits_from_both(log: MemoryLog) -> None:
    """The grandchild is answered by what its parent inherited and by what its parent did itself."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        answers = {"choose:1": {"amount": 7}}
        await begun(node, "q", at=seq_of(log, b.DecisionMade), effects="live", answers=answers)
        assert await node.run(outside.refunder(), "q") == "paid 7"
        outside.looked.clear()
        ledger = list(outside.ledger)
        await begun(node, "r", "q", at=1, permissive=True)
        assert await node.run(outside.refunder(), "r") == "paid 7"
        lineage = (await node.recover("r", at_seq=1)).state.lineage
    assert (lineage.parent_id, lineage.parent_seq) == ("q", 1)
    assert (outside.ledger, outside.looked) == (ledger, [])


async def test_a_moment_before_a_fork_began_is_its_parents(log: MemoryLog) -> None:
    """The fork of a fork at a call that both inherit: its later calls are those of the way to the fork, not others."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        await begun(node, "q", answers={"choose:1": {"amount": 7}}, effects="live")
        not_yet = await node.plan_fork("q", at=HistoryPoint.before("choose:1"), permissive=True)
        assert not_yet.later_effects == ()  # the parent paid after it was left
        assert await node.run(outside.refunder(), "q") == "paid 7"
        outside.looked.clear()
        ledger, before = list(outside.ledger), seq_of(log, b.DecisionStarted) - 1
        plan = await node.plan_fork("q", at=HistoryPoint.before("choose:1"), permissive=True)
        assert (plan.parent_id, plan.parent_seq) == ("p", before)
        assert plan.later_effects == ("pay:1",)
        await begun(node, "r", "q", at=HistoryPoint.before("choose:1"), permissive=True)
        assert await node.run(outside.refunder(), "r") == "paid 7"  # the parent's own choice is no part of that way
        assert outside.looked == []
        with pytest.raises(Refused, match="no such moment"):
            await node.plan_fork("q", at=HistoryPoint.turn(3))
    assert outside.ledger == ledger


async def test_a_call_that_was_open_at_the_point_gets_its_later_end(log: MemoryLog) -> None:
    """A payment that was under way is answered by its outcome: without it, nobody could tell what became of it."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        at, ledger = seq_of(log, b.EffectIntended), list(outside.ledger)
        plan = await node.plan_fork("p", at=at)
        assert (plan.in_doubt, plan.later_effects, plan.later) == (("pay:1",), ("pay:1",), ())
        await begun(node, "q", at=at, effects="recorded")
        assert await node.run(outside.refunder(), "q") == "paid 10"
    assert outside.ledger == ledger


async def test_equal_requests_get_the_parents_answers_in_their_order(log: MemoryLog) -> None:
    """The nth equal request gets the nth answer; one more is made."""
    numbers = iter(range(100))
    asked = 3

    @agent("counter")
    async def run(process: Process, given: Any) -> Any:
        return [await process.step("count", lambda: next(numbers)) for _ in range(asked)]

    async with Node.in_memory(log) as node:
        assert await node.run(run, "p", None) == [0, 1, 2]
        asked = 4
        await begun(node, "q", at=seq_of(log, b.AgentStarted), permissive=True)
        assert await node.run(run, "q") == [0, 1, 2, 3]


async def test_a_failed_call_of_the_parent_is_made_again(log: MemoryLog) -> None:
    """A permissive fork with mended code gets further; what succeeded is answered."""
    broken, ran = True, list[str]()

    def body(name: str) -> str:
        ran.append(name)
        if broken and name == "b":
            raise ValueError(name)
        return name

    @agent("mended")
    async def run(process: Process, given: Any) -> Any:
        return [await process.step(name, body, name) for name in "ab"]

    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="b"):
            await node.run(run, "p", None)
        broken = False
        await begun(node, "q", at=seq_of(log, b.AgentStarted), permissive=True)
        assert await node.run(run, "q") == ["a", "b"]
    assert ran == ["a", "b", "b"]


async def test_gates_mail_timers_and_children_of_the_parent_answer_a_permissive_fork(log: MemoryLog) -> None:
    """It waits for nobody, spawns nobody and receives nothing."""

    @agent("child")
    async def child(process: Process, given: Any) -> Any:
        return f"child of {given}"

    @agent("waiting")
    async def run(process: Process, given: Any) -> Any:
        verdict = await process.gate("ok?")
        await process.sleep(60)
        mail = await process.receive("wake", timeout_s=60)
        made = await process.spawn(child, "child-1", "p").result()
        return [verdict.outcome, mail.payload, made]

    async with Node.in_memory(log, clock=VirtualClock(patience_s=0.01)) as node:
        async with node.open("p"):
            pass
        await node.approve("p", "ok?", in_advance=True)
        await node.signal("p", "wake", 1)
        expected = ["approved", 1, "child of p"]
        assert await node.run(run, "p", None) == expected
        spawned_by = (await node.recover("child-1")).state.lineage.spawned_by
        ends = log.watermarks(0).high
        await begun(node, "q", at=seq_of(log, b.AgentStarted), permissive=True)
        assert await node.run(run, "q") == expected
        await begun(node, "r", at=seq_of(log, b.ChildSpawned) - 1)
        with pytest.raises(EffectRefused) as refused:
            await node.run(run, "r")
    assert (spawned_by, refused.value.kind) == ("p", "child")
    assert not {one.process_id for one in _after(log, ends)} & {"p", "child-1"}


def _after(log: MemoryLog, offset: int) -> list[Any]:
    batches = log.read(0, offset, log.watermarks(0).high)
    return [log.codec.decode(one.value) for batch in batches for one in batch.records]


async def test_an_effect_that_only_observes_is_called_by_every_fork(log: MemoryLog) -> None:
    """It changes nothing outside."""
    seen = list[int]()

    @agent("observer")
    async def run(process: Process, given: Any) -> Any:
        return await process.effect("balance", lambda: len(seen), semantics="observe_only")

    async with Node.in_memory(log) as node:
        assert await node.run(run, "p", None) == 0
        await begun(node, "q", at=seq_of(log, b.AgentStarted))
        seen.append(1)
        assert await node.run(run, "q") == 1


async def test_the_calls_of_a_fork_are_shown_with_those_that_it_inherits(log: MemoryLog) -> None:
    """With who began each, with the other answer; without a parent's entries, the fork's own are left."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        await begun(node, "q", answers={"choose:1": {"amount": 7}}, effects="live")
        await node.run(outside.refunder(), "q")
        await begun(node, "r", "q", at=HistoryPoint.after("pay:1"))

    def read(process_id: str) -> list[Any]:
        return list(applied(entries_of(log, process_id)))

    def gone(process_id: str) -> list[Any]:
        if process_id == "p":
            raise JournalGap("trimmed")
        return read(process_id)

    found = [(one.key, one.facts.get("inherited_from")) for one in calls_of(read, "r")]
    assert found == [("look:1", "p"), ("now:1", "p"), ("choose:1", "p"), ("pay:1", "q")]
    choice = calls_of(read, "q")[2]
    assert (choice.output, choice.facts["answered_by"]) == ({"amount": 7}, "q")
    assert [one.key for one in calls_of(gone, "q")] == ["pay:1", "tell:1"]


async def test_the_calls_of_a_process_are_shown_with_the_answers_it_was_given_later(log: MemoryLog) -> None:
    """By a rewind, and by the fork that was promoted into it. Its other calls stay as they were."""

    @agent("chooses")
    async def chooses(process: Process, _: Any) -> Any:
        first = await process.step("look", lambda: 1)
        await process.decide("choose", lambda request: "a", {})
        return await process.receive("never") or first

    def shown() -> list[tuple[str, Any, Any]]:
        found = calls_of(lambda name: list(applied(entries_of(log, name))), "p")
        return [(one.key, one.output, one.facts.get("answered_by")) for one in found]

    async with Node.in_memory(log) as node:
        run = asyncio.ensure_future(node.run(chooses, "p", None))
        async with asyncio.timeout(5):
            while (await node.recover("p", missing_ok=True)).state.lifecycle is not Lifecycle.AWAITING:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        async with node.fork("p", "q", answers={"choose:1": "b"}):
            pass
        await node.promote("q", prefer="fork")
        assert shown() == [("look:1", 1, None), ("choose:1", "b", "q")]
        await node.rewind("p", answers={"choose:1": "c"})
        assert shown() == [("look:1", 1, None), ("choose:1", "c", "p")]


@pytest.mark.parametrize(
    ("key", "at", "message"),
    [
        ("nobody:1", None, "no such moment"),
        ("nobody:1", b.EffectIntended, "no such call"),
        ("pay:1", None, "is a fact"),
        ("choose:1", b.DecisionStarted, "no answer yet"),
    ],
)
async def test_an_answer_that_cannot_be_given_uses_up_no_id(
    log: MemoryLog, key: str, at: type[b.Body] | None, message: str
) -> None:
    """No such call, an effect, a call that has not ended."""
    outside = Outside()
    async with Node.in_memory(log) as node:
        await finished(node, outside)
        with pytest.raises(Refused, match=message):
            await node.fork("p", "q", at=None if at is None else seq_of(log, at), answers={key: 1})
        assert not (await node.recover("q", missing_ok=True)).known


async def test_a_fork_that_is_too_large_or_of_an_unknown_policy_uses_up_no_id() -> None:
    """The later records count; without them it fits."""
    log = MemoryLog(partitions=1, limits=Limits(record_bytes=4_000, state_bytes=8_000))

    @agent("large")
    async def run(process: Process, given: Any) -> Any:
        async for turn in process.turns():
            await process.step("much", lambda: "x" * 2_000)
            if turn.number == 5:
                break

    async with Node.in_memory(log) as node:
        await node.run(run, "p", None)
        with pytest.raises(InvalidSetting, match="no such policy"):
            await node.fork("p", "q", effects="all")
        with pytest.raises(LimitExceeded, match="would not fit"):
            await node.fork("p", "q", at=seq_of(log, b.AgentStarted), permissive=True)
        await begun(node, "q", at=seq_of(log, b.AgentStarted))
