"""What an input divergence says: the first difference of what a call is asked and what it was asked. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

import pytest

from cuts import cut_after, of_kind
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.producers import Agent, Node, Process, agent, check_replay
from seekpoint.producers.durable.replay.differences import difference_from
from seekpoint.producers.durable.replay.value_differences import first_difference
from seekpoint.producers.node import runtime_of
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import AgentMismatch, JournalUnavailable, ReplayDivergence
from seekpoint.schemas.state.calls import write_digest

Ask = Callable[[Process, Any], Coroutine[Any, Any, Any]]


class Crash(Exception):
    """The machine dies."""


def given(*arguments: Any, **options: Any) -> None:
    """A body that takes anything."""


def asks(ask: Ask) -> Callable[..., Agent]:
    """An agent that asks once, with this; dies behind it, or does not."""

    def made(asked: Any, dies: bool = False) -> Agent:
        @agent("asker")
        async def run(process: Process, input: Any) -> Any:
            await ask(process, asked)
            if dies:
                raise Crash

        return run

    return made


async def diverged(node: Node, ask: Ask, then: Any, now: Any) -> ReplayDivergence:
    """What code is told that asks ``now`` where it asked ``then``."""
    made = asks(ask)
    with pytest.raises(Crash):
        await node.run(made(then, dies=True), "p")
    with pytest.raises(ReplayDivergence) as caught:
        await node.run(made(now), "p")
    return caught.value


async def step(process: Process, asked: Any) -> None:
    await process.step("pay", given, *asked)


# --- what is told
@pytest.mark.parametrize(
    ("then", "now", "difference"),
    [
        ([1], [1.0], "$.arguments[0]: 1 is now 1.0"),
        ([1], [True], "$.arguments[0]: 1 is now true"),
        ([1], ["1"], '$.arguments[0]: 1 is now "1"'),
        ([True], [1], "$.arguments[0]: true is now 1"),
        ([0.0], [-0.0], "$.arguments[0]: 0.0 is now -0.0"),
        ([Decimal("1.0")], [Decimal("1.00")], '$.arguments[0]: {"$decimal":"1.0"} is now {"$decimal":"1.00"}'),
        (["o", {"items": [{"n": 1}, {"n": 2}]}], ["o", {"items": [{"n": 1}, {"n": 3}]}],
         "$.arguments[1].items[1].n: 2 is now 3"),
        ([1, 2], [1], "$.arguments[1]: 2 is gone"),
        ([{"a": None}], [{}], "$.arguments[0].a: null is gone"),
        ([], [None], "$.arguments[0]: null is new"),
    ],
)  # fmt: skip
async def test_the_first_difference_is_named_by_its_path_and_type(
    node: Node, then: list[Any], now: list[Any], difference: str
) -> None:
    """Both values, as the journal has them: what Python takes for equal is not."""
    error = await diverged(node, step, then, now)
    assert (error.kind, error.key, error.difference) == ("input", "pay:1", difference)
    assert difference in str(error)
    assert len(error.expected) == len(error.actual) == 32


@pytest.mark.parametrize(
    ("then", "now", "difference"),
    [
        ({}, {"limit": 3}, '$.options: {"limit":3} is new'),
        ({"limit": 3}, {"limit": "3"}, '$.options.limit: 3 is now "3"'),
        ({"limit": 3}, {}, '$.options: {"limit":3} is gone'),
    ],
)
async def test_options_are_named_as_options(node: Node, then: Any, now: Any, difference: str) -> None:
    """Added, too, where there were none."""

    async def ask(process: Process, asked: Any) -> None:
        await process.step("pay", given, 1, **asked)

    assert (await diverged(node, ask, then, now)).difference == difference


async def effect(process: Process, asked: Any) -> None:
    await process.effect("pay", given, asked)


async def gate(process: Process, asked: Any) -> None:
    await process.gate("ok", prompt={"amount": asked})


async def child(process: Process, asked: Any) -> None:
    @agent("child")
    async def grow(process: Process, input: Any) -> None:
        return None

    await process.spawn(grow, "p/child", {"amount": asked}).result()


async def write(process: Process, asked: Any) -> None:
    await process.update("amount", asked)


async def many(process: Process, asked: Any) -> None:
    await process.update_many({"a": 1, "amount": asked})


async def say(process: Process, asked: Any) -> None:
    await process.say("user", [{"amount": asked}])


async def named(process: Process, asked: Any) -> None:
    await process.step("old" if asked == 1 else "new", given, key="k")


@pytest.mark.parametrize(
    ("ask", "difference"),
    [
        (effect, "$.arguments[0]: 1 is now 2"),
        (gate, "$.prompt.amount: 1 is now 2"),
        (child, "$.input.amount: 1 is now 2"),
        (write, "$.value: 1 is now 2"),
        (many, "$.values.amount: 1 is now 2"),
        (say, "$.parts[0].amount: 1 is now 2"),
        (named, '$.name: "old" is now "new"'),
    ],
)
async def test_every_call_whose_question_is_journaled_tells_it(node: Node, ask: Ask, difference: str) -> None:
    """Effects, gates, children, content writes as well as steps; under a key of its own, another name."""
    if ask is gate:
        await node.signal("p", "ok")
    error = await diverged(node, ask, 1, 2)
    assert (error.kind, error.difference) == ("input", difference)


async def test_of_long_values_the_place_where_they_part_is_shown(node: Node) -> None:
    """A readable length of each, whatever they begin with."""
    old, new = "x" * 5_000 + "old end" + "y" * 500, "x" * 5_000 + "new end" + "y" * 500
    found = str((await diverged(node, step, [old], [new])).difference)
    assert len(found) < 300
    assert "xold end" in found
    assert "xnew end" in found


async def test_in_a_block_it_is_told_as_well(node: Node) -> None:
    """Where no agent runs: by the call that is awaited."""
    async with node.open("p") as process:
        await process.step("pay", given, 1)
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.step("pay", given, 2)
        assert caught.value.difference == "$.arguments[0]: 1 is now 2"


async def test_the_newest_question_of_a_key_counts(node: Node) -> None:
    """What a rewind forgot was another question under the same key."""
    async with node.open("p") as process:
        await process.update("a", 1)
        await process.step("pay", given, "forgotten")
        await process.rewind(1)
        await process.step("pay", given, "old")
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.step("pay", given, "new")
        assert caught.value.difference == '$.arguments[0]: "old" is now "new"'


async def test_the_first_call_that_differs_is_the_one_that_is_told_of(node: Node) -> None:
    """Code that goes on, or had asked for more at once, gets the same error again."""
    async with node.open("p") as process:
        await asyncio.gather(process.step("a", given, 1), process.step("b", given, 1))
    async with node.open("p") as process:
        errors = await asyncio.gather(
            process.step("a", given, 2), process.step("b", given, 3), return_exceptions=True
        )  # fmt: skip
        assert errors[0] is errors[1]
        assert isinstance(errors[0], ReplayDivergence)
        assert (errors[0].key, errors[0].difference) == ("a:1", "$.arguments[0]: 1 is now 2")


async def test_another_input_of_the_agent_is_told_too(node: Node) -> None:
    """The state has it: nothing is read."""

    @agent("asker")
    async def run(process: Process, input: Any) -> None:
        raise Crash

    with pytest.raises(Crash):
        await node.run(run, "p", {"order": 1})
    with pytest.raises(AgentMismatch) as caught:
        await node.run(run, "p", {"order": "1"})
    assert (caught.value.kind, caught.value.difference) == ("input", '$.order: 1 is now "1"')


# --- what it costs, and where it cannot be told
async def test_the_journal_is_read_only_where_code_diverges(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, for the kinds of entries that begin such calls."""
    asked: list[Any] = []
    entries = Recovery.entries

    def noted(self: Recovery, process_id: str, **which: Any) -> Any:
        asked.append(which)
        return entries(self, process_id, **which)

    monkeypatch.setattr(Recovery, "entries", noted)
    made = asks(step)
    for _ in range(2):
        with pytest.raises(Crash):
            await node.run(made([1], dies=True), "p")
    assert asked == []
    with pytest.raises(ReplayDivergence):
        await node.run(made([2]), "p")
    assert [which["kinds"] for which in asked] == [[b.StepStarted.KIND, b.StepEnded.KIND]]


async def test_where_the_journal_lost_it_the_digests_are_left(node: Node, log: MemoryLog) -> None:
    """And a sentence how to see it: nothing is guessed, and the divergence is the same error."""
    made = asks(step)
    with pytest.raises(Crash):
        await node.run(made([1], dies=True), "p")
    async with Node.in_memory(cut_after(log, log.watermarks(0).high)) as other:

        def gone(process_id: str, **which: Any) -> Any:
            raise JournalUnavailable("no answer")

        runtime_of(other).entries = gone  # type: ignore[method-assign]
        with pytest.raises(ReplayDivergence) as caught:
            await other.run(made([2]), "p", take_over=True)
    error = caught.value
    assert "difference" not in error.facts
    assert (error.kind, error.key, len(error.expected)) == ("input", "pay:1", 32)
    assert "what was asked then: seekpoint steps" in str(error)
    assert str(error).count("what was asked then") == 1


def test_a_difference_is_only_told_of_what_was_asked() -> None:
    """Not of another key, nor of another question under it, nor of an order."""
    started = b.StepStarted(key="pay:1", digest="d", name="pay", arguments="[1]")
    for kind, key, expected, told in (
        ("input", "pay:1", "d", "$.arguments[0]: 1 is now 2"), ("order", "pay:1", "d", None),
        ("input", "pay:2", "d", None), ("input", "pay:1", "other", None),
    ):  # fmt: skip
        error = ReplayDivergence("", kind=kind, key=key, expected=expected)
        assert difference_from([started], error) is None
        error.asks = b.StepStarted(name="pay", arguments="[2]")
        assert difference_from([started], error) == told


def test_a_difference_of_a_write_is_told_of_what_its_digest_covers() -> None:
    """Not of prose or of how long it took, which are others in each run."""
    wrote = b.InvocationEnded("done", 5, "1", "as *** said", call="#1")
    error = ReplayDivergence("", kind="input", key="#1", expected=write_digest(wrote))
    error.asks = b.InvocationEnded("done", 6, "2", "as admin said")
    assert difference_from([wrote], error) == "$.result: 1 is now 2"


def test_values_that_are_written_alike_are_alike() -> None:
    """A tuple is a list; what Python takes for unequal may be alike, and the other way round."""
    assert first_difference({"a": 0.0}, {"a": -0.0}) == "$.a: 0.0 is now -0.0"
    assert first_difference([1, [2]], (1, (2,))) is None


# --- replay check
@pytest.mark.parametrize("ask", [step, effect, child, write])
async def test_a_replay_check_tells_it(node: Node, log: MemoryLog, ask: Ask) -> None:
    """From the history it is given, also of a call whose result nobody awaits."""
    made = asks(ask)
    with pytest.raises(Crash):
        await node.run(made([1], dies=True), "p")
    found = await check_replay(made([2]), history_of(log, "p"))
    assert found.divergence is not None
    assert (found.divergence.kind, str(found.divergence.difference)[-15:]) == ("input", "[0]: 1 is now 2")
    assert "1 is now 2" in str(found)
    assert found.to_dict()["divergence"]["difference"] == found.divergence.difference
    assert len(of_kind(log, b.AgentStarted)) == 1
