"""Reruns: what the record answers, what is made anew, what is never done outside, and many of them. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from cuts import bodies
from seekpoint.producers import Agent, Node, Prices, Process, Rerun, agent
from seekpoint.producers.history.many_reruns import RerunLimits, ScoredRerun, rerun_many
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import AgentMismatch, EffectRefused, InvalidSetting, Refused, Retryable


class Outside:
    """What the bodies of the agent did, and which models were asked."""

    def __init__(self) -> None:
        self.ledger: list[int] = []
        self.asked: list[str] = []
        self.fails = False

    async def look(self, order: int) -> int:
        self.asked.append("look")
        if self.fails:
            raise PermissionError("no access")
        return order

    async def answer(self, request: dict[str, Any]) -> Any:
        self.asked.append(request["model"])
        action = "pay" if request["model"] == "small" else "refuse"
        return {"action": action, "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}

    async def create(self, *, model: str, messages: list[str]) -> Any:
        self.asked.append(f"wrapped {model}")
        return {"model": model, "said": len(messages)}

    async def pay(self, amount: int, *, idempotency_key: str = "") -> str:
        self.ledger.append(amount)
        return f"paid {amount}"

    def triage(self, version: int = 1, more: int = 0) -> Agent:
        """Look, decide on a model, ask a wrapped client, and pay or not."""

        @agent("triage", version)
        async def triage(process: Process, order: int) -> Any:
            found = await process.step("look", self.look, order)
            choice = await process.decide("choose", self.answer, {"model": "small", "order": found})
            said = await process.wrap_model(self.create)(model="small", messages=["hello"])
            if choice["action"] == "pay":
                await process.effect("pay", self.pay, order + more, semantics="at_most_once")
            return [choice["action"], said["model"]]

        return triage


@pytest.fixture
def outside() -> Outside:
    return Outside()


async def begun(node: Node, outside: Outside, process_id: str = "p", order: int = 5) -> None:
    """Run the agent to its end, and forget what it asked."""
    assert await node.run(outside.triage(), process_id, order) == ["pay", "small"]
    outside.asked.clear()


async def test_a_rerun_of_the_same_code_is_answered_by_the_record(outside: Outside) -> None:
    """No body runs; the calls are the same, and so is the outcome."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        await begun(node, outside)
        found = await node.rerun(outside.triage(), "p", reason="what if", actor="ann")
        assert (found.rerun_id, found.status, found.is_same_outcome) == ("p~rerun", "finished", True)
        assert (found.difference.same_calls, found.difference.changed, found.difference.only_left) == (4, (), ())
        assert (outside.asked, outside.ledger) == ([], [5])
        lineage = (await node.recover("p~rerun")).state.lineage
    assert (lineage.rerun_of, lineage.model, lineage.reason) == ("p", None, "what if")
    [answered] = [one for one in bodies(log, "p~rerun") if isinstance(one, b.ParentAnswered)]
    assert answered.keys == '["look:1","choose:1","model:1","pay:1"]'


async def test_another_model_is_asked_and_the_rest_is_not(outside: Outside) -> None:
    """``decide`` and ``wrap_model`` call the other model; the journal has the request as it was made."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        node.prices = Prices({"small": {"input": "1", "output": "1"}, "large": {"input": "3", "output": "1"}})
        await begun(node, outside)
        found = await node.rerun(outside.triage(), "p", model="large")
        assert outside.asked == ["large", "wrapped large"]
        assert (found.rerun_id, found.result, found.first_result) == ("p~large", ["refuse", "large"], ["pay", "small"])
        assert [(one.key, one.difference) for one in found.difference.changed] == [
            ("choose:1", 'request $.model: "small" is now "large"'),
            ("model:1", 'request $.model: "small" is now "large"'),
        ]
        assert [one.key for one in found.difference.only_left] == ["pay:1"]
        answers = found.first_answers, found.answers
        assert [[*one] for one in answers] == [["choose:1", "model:1"]] * 2
        assert [one["choose:1"]["action"] for one in answers] == ["pay", "refuse"]
        assert (found.difference.left.cost_usd, found.difference.right.cost_usd) == ("1", "3")
        assert outside.ledger == [5]
    requests = [one.request for one in bodies(log, "p~large") if isinstance(one, b.DecisionStarted)]
    assert all('"large"' in one for one in requests)
    assert len(requests) == 2


async def test_a_rerun_that_ended_is_not_run_twice(outside: Outside) -> None:
    """Asked for again it is compared; the id with another model, input or process is refused."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        await begun(node, outside)
        await begun(node, outside, "q")
        first = await node.rerun(outside.triage(), "p", "r", model="large")
        outside.asked.clear()
        assert await node.rerun(outside.triage(), "p", "r", model="large") == first
        assert outside.asked == []
        for other in ({"model": "small"}, {"model": "large", "input": 6}, {"model": "large", "effects": "refused"}):
            with pytest.raises(Refused, match="belongs to another"):
                await node.rerun(outside.triage(), "p", "r", **other)
        with pytest.raises(Refused, match="belongs to another"):
            await node.rerun(outside.triage(), "q", "r", model="large")
        with pytest.raises(Refused, match="belongs to another"):
            await node.rerun(outside.triage(), "p", "q", model="large")


async def test_an_effect_is_never_made_again(outside: Outside) -> None:
    """Another request for money, and an equal one that is not to be answered, end the rerun; nothing is paid."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        await begun(node, outside)
        other = await node.rerun(outside.triage(2, more=1), "p", "other")
        none = await node.rerun(outside.triage(), "p", "none", effects="refused")
        for found in (other, none):
            assert (found.status, str(found.error).partition(":")[0]) == ("failed", EffectRefused.__name__)
            assert not found.is_same_outcome
            assert str(found.error).startswith("EffectRefused: a rerun makes no effects: this effect was not begun")
            assert "fork p with effects=live" in str(found.error)
            assert (found.result, found.answers["choose:1"]["action"]) == (None, "pay"), "answered by the record"
        changed = await node.rerun(outside.triage(), "p", "changed", input=7)
        assert (changed.status, outside.ledger) == ("failed", [5])
        with pytest.raises(InvalidSetting, match="no effects"):
            await node.rerun(outside.triage(), "p", "live", effects="live")
    assert outside.asked == ["look", "small"]


async def test_a_failed_run_is_run_again_with_mended_code(outside: Outside) -> None:
    """What had failed is made again; both errors are told."""
    outside.fails = True
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        with pytest.raises(PermissionError):
            await node.run(outside.triage(), "p", 5)
        again = await node.rerun(outside.triage(), "p", "again")
        assert (again.status, again.error, again.first_error) == (
            "failed", "PermissionError: no access", "PermissionError: no access"
        )  # fmt: skip
        assert again.is_same_outcome
        seq = again.difference.right.seq
        assert (await node.rerun(outside.triage(), "p", "again")).difference.right.seq == seq
        outside.fails = False
        mended = await node.rerun(outside.triage(), "p", "mended")
    assert (mended.status, mended.first_status) == ("failed", "failed")
    assert "EffectRefused" in str(mended.error)
    assert outside.ledger == []


async def test_a_rerun_of_a_rerun_is_answered_by_both(outside: Outside) -> None:
    """It begins where the first run began; the money of the first run answers it."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        await begun(node, outside)
        await node.rerun(outside.triage(), "p", "large", model="large")
        outside.asked.clear()
        back = await node.rerun(outside.triage(), "large", "small", model="small")
        assert (back.status, back.result, outside.ledger) == ("finished", ["pay", "small"], [5])
        assert outside.asked == []
        lineage = (await node.recover("small")).state.lineage
        assert (lineage.rerun_of, lineage.parent_id) == ("large", "p")


async def test_a_rerun_reads_each_history_once(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run is read once, and of the rerun's partition only what was written since the rerun began."""
    log, reads = MemoryLog(partitions=1), list[tuple[int, set[bytes]]]()
    read = log.read

    def counted(partition: int, start: int, stop: int, keys: Any = None) -> Any:
        reads.append((start, set(keys or ())))
        return read(partition, start, stop, keys)

    async with Node.in_memory(log) as node:
        for one in ("p", "q"):
            await begun(node, outside, one)
        await proven_absent(node, "p~rerun")
        end = log.watermarks(0).high
        monkeypatch.setattr(log, "read", counted)
        await node.rerun(outside.triage(), "p")
    assert [(start, keys) for start, keys in reads if keys] == [(0, {b"p"}), (end, {b"p~rerun"})]


async def proven_absent(node: Node, process_id: str) -> None:
    """Return once the node has proof that there is no such process."""
    async with asyncio.timeout(10):
        while await runtime_of(node).reads._absence(process_id) is None:  # noqa: ASYNC110  # a thread reads
            await asyncio.sleep(0.01)


async def test_a_rerun_that_was_interrupted_goes_on(outside: Outside) -> None:
    """A run that takes too long is left as it is; the same call makes no call twice. A worker's agent may wait."""
    let_go = asyncio.Event()

    @agent("waits")
    async def waits(process: Process, given: int) -> Any:
        chosen = await process.decide("choose", outside.answer, {"model": "small"})
        await process.step("rest", let_go.wait)
        return chosen["action"]

    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        let_go.set()
        await node.run(waits, "p", 1)
        let_go.clear()
        outside.asked.clear()

        @agent("waits", 2)
        async def other(process: Process, given: int) -> Any:
            chosen = await process.decide("choose", outside.answer, {"model": "small"})
            await process.step("wait", let_go.wait)
            return chosen["action"]

        late = await node.rerun(other, "p", model="large", timeout_s=0.3)
        assert (late.status, late.error, late.result) == ("running", "it did not end in 0.3 s", None)
        let_go.set()
        assert (await node.rerun(other, "p", model="large")).result == "refuse"
    assert outside.asked == ["large"]


async def test_what_cannot_be_run_again_is_refused(outside: Outside) -> None:
    """A process that runs, one without an agent, one that is not there."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        async with node.open("program") as process:
            await process.update("a", 1)
        with pytest.raises(Refused, match="no agent ran"):
            await node.rerun(outside.triage(), "program")

        @agent("triage")
        async def waits(process: Process, given: int) -> Any:
            with pytest.raises(Refused, match="has not ended"):
                await node.rerun(outside.triage(), "p")

        await node.run(waits, "p", 1)
        plan = await node.plan_rerun(outside.triage(), "p", input=2)
        assert (plan.parent_id, plan.calls, plan.effects) == ("p", 0, "recorded")
        assert not (await node.recover("p~rerun", missing_ok=True)).known
        with pytest.raises(AgentMismatch):
            await node.run(outside.triage(), "p", 2)


# --- many
async def collected(node: Node, made: Agent, ids: list[str], **how: Any) -> list[ScoredRerun]:
    """Return the reruns by process."""
    found = [one async for one in node.rerun_many(made, ids, **how)]
    return sorted(found, key=lambda one: one.process_id)


async def test_many_reruns_are_scored_within_limits(outside: Outside) -> None:
    """At most so many at once; a process that cannot be run again has a reason; all have an id of their own."""
    at_once, most = 0, 0

    async def score(rerun: Rerun) -> float:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        async with asyncio.timeout(10):
            while most < 2:  # noqa: ASYNC110  # the first one waits for another, however slow the machine is
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        at_once -= 1
        return rerun.is_same_outcome

    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        ids = [f"p{number}" for number in range(5)]
        for one in ids:
            await begun(node, outside, one)
        found = await collected(node, outside.triage(), [*ids, "gone"], score=score, concurrency=2, model="large")
        assert (most, [one.score for one in found[1:]]) == (2, [0.0] * 5)
        assert [one.rerun.rerun_id for one in found[1:] if one.rerun] == [f"{one}~large" for one in ids]
        assert (found[0].process_id, found[0].rerun) == ("gone", None)
        assert "gone" in str(found[0].skipped)
        same = await collected(node, outside.triage(), ids, label="check", score=lambda rerun: rerun.is_same_outcome)
        assert [one.score for one in same] == [1.0] * 5


@pytest.mark.parametrize("score", [lambda _: "good", lambda _: 1 / 0])
async def test_a_score_that_fails_loses_no_rerun(outside: Outside, score: Callable[[Rerun], Any]) -> None:
    """The rerun is there, with the error of the function."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        await begun(node, outside)
        [found] = await collected(node, outside.triage(), ["p"], score=score)
    assert found.rerun is not None
    assert (found.rerun.status, found.score) == ("finished", None)
    assert str(found.score_error).startswith(
        ("ZeroDivisionError: div", "InvalidSetting: a score is a number or a bool")
    )


async def test_no_rerun_begins_once_the_budget_is_spent(outside: Outside) -> None:
    """What the reruns of an earlier call cost counts too. A budget needs prices."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        ids = [f"p{number}" for number in range(4)]
        for one in ids:
            await begun(node, outside, one)
        how = {"model": "large", "concurrency": 1}
        with pytest.raises(InvalidSetting, match="without prices"):
            await collected(node, outside.triage(), ids, budget_usd="6", **how)
        node.prices = Prices({"large": {"input": "3", "output": "1"}})
        found = await collected(node, outside.triage(), ids, budget_usd="6", **how)
        assert [one.skipped for one in found] == [None, None, *["the budget of 6 USD is spent"] * 2]
        assert outside.asked.count("large") == 2
        outside.asked.clear()
        found = await collected(node, outside.triage(), ids, budget_usd=Decimal(7), **how)
        assert [one.skipped is None for one in found] == [True, True, True, False]
        assert outside.asked.count("large") == 1


@pytest.mark.parametrize(("concurrency", "budget"), [(0, None), (1, "0"), (1, "-1"), (1, "much")])
def test_limits_that_make_no_sense_are_refused(concurrency: int, budget: str | None) -> None:
    """No rerun at a time, no positive budget."""
    with pytest.raises(InvalidSetting):
        RerunLimits.of(concurrency, budget)


async def test_an_error_of_the_journal_ends_all_reruns() -> None:
    """Those under way are cancelled, so that another node can go on with them."""
    cancelled: list[str] = []

    async def again(process_id: str) -> Any:
        if process_id == "bad":
            raise Retryable("Kafka is away")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(process_id)
            raise

    with pytest.raises(Retryable):
        assert [one async for one in rerun_many(again, ["good", "bad"], RerunLimits.of(2, None))] == []
    assert cancelled == ["good"]
