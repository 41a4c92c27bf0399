"""A failed run that is told to make its failed calls again: what succeeded stays. In memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from counted_steps import CUT, Counted, Declined, fails
from cut_offs import cut_off
from cuts import of_kind
from open_processes import durable_side
from seekpoint.producers import Effect, Node, NotDone, Process, Retry, agent, check_replay
from seekpoint.producers.durable.failures.failed_calls import failed_calls, tagged
from seekpoint.producers.durable.replay.call_records import asked
from seekpoint.producers.durable.replay.recorded_run import applied
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import EffectFailed, Refused


async def test_a_failed_step_is_made_again_and_what_succeeded_is_not(node: Node, log: MemoryLog) -> None:
    """Run again it fails as it did; told to try again, it goes on where it failed, by one entry of the owner."""
    find, pay = Counted("found"), Counted(Declined("no"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> list[str]:
        return [await process.step("find", find), await process.step("pay", pay)]

    await fails(node, run)
    await fails(node, run)
    assert len(pay.runs) == 1
    assert await node.run(run, "p", retry_failed=True) == ["found", "paid"]
    assert (len(find.runs), len(pay.runs)) == (1, 2)
    assert [one.keys for one in of_kind(log, b.CallsSetAside)] == ['["pay:1"]']
    assert [(one.attempt, one.outcome) for one in of_kind(log, b.StepEnded)][1:] == [(1, "failed"), (2, "succeeded")]


async def test_a_failed_decision_is_made_again(node: Node) -> None:
    """As a step is."""
    model = Counted(Declined("busy"), "yes")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        return await process.decide("ask", model, {"messages": []})

    await fails(node, run)
    assert await node.run(run, "p", retry_failed=True) == "yes"


async def test_it_has_all_its_attempts_again(node: Node, log: MemoryLog) -> None:
    """Those of the run before do not count against its retry; they stay in the list of its attempts."""
    pay = Counted(*[Declined("no")] * 5, "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        return await process.step("pay", pay, retry=Retry(attempts=3))

    await fails(node, run)
    assert await node.run(run, "p", retry_failed=True) == "paid"
    entries = [one.entry async for one in node.entries("p")]
    (call,) = [one for one in asked(applied(entries)) if one.key == "pay:1"]
    assert [one.outcome for one in call.attempts] == ["retry", "retry", "failed", "retry", "retry", "succeeded"]
    assert (call.status, call.output) == ("succeeded", "paid")


async def test_it_is_listed_as_under_way_until_it_is_made_again(node: Node, log: MemoryLog) -> None:
    """And a replay check goes as far as it: the history has no answer for it any more."""
    pay = Counted(Declined("no"))

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        return await process.step("pay", pay)

    await fails(node, run)
    async with node.open("p") as process:
        await durable_side(process).append(b.CallsSetAside('["pay:1"]'))
    history = [one async for one in node.entries("p")]
    (call,) = asked(applied(history))
    assert call.status == "started"
    found = await check_replay(run, history)
    assert (found.ok, found.ended_at) == (True, "pay:1")


async def test_a_fork_s_failed_run_is_told_to_try_again(node: Node) -> None:
    """What it inherits has the seqs of its parent, which say nothing of its own entries."""
    pay = Counted(Declined("no"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        for number in range(20):
            await process.step("look", str, number)
        return await process.step("pay", pay)

    await fails(node, run)
    async with node.fork("p", "q"):
        pass
    await fails(node, run, "q")
    assert await node.run(run, "q", retry_failed=True) == "paid"


@pytest.mark.parametrize("asked", [True, ["pay:1"]])
async def test_nothing_is_made_again_while_effects_are_being_taken_back(log: MemoryLog, asked: Any) -> None:
    """It was cut off between two compensations: a run that goes on would end as if both effects stood."""
    pay, undo = Counted(Declined("no"), "paid"), Counted(None, CUT, None)

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        for name in ("one", "two"):
            await process.effect(name, str, name, semantics=Effect.IDEMPOTENT, compensate=undo)
        return await process.step("pay", pay)

    async with Node.in_memory(log) as node:
        await cut_off(node.run(run, "p"))
        await failed_run_noted(node)
    async with Node.in_memory(log) as node:
        if asked is not True:
            await fails(node, run, kind=Refused, retry_failed=asked)
        await fails(node, run, retry_failed=asked is True)
        state = (await node.recover("p")).state
    assert (len(pay.runs), state.obligations) == (1, ())
    assert {key: call.status for key, call in state.calls.items() if key.startswith("undo/")} == {
        "undo/one:1": "succeeded", "undo/two:1": "succeeded",
    }  # fmt: skip


async def failed_run_noted(node: Node) -> None:
    """An owner that died right behind the entry which says what ended its run."""
    async with node.open("p") as process:
        await durable_side(process).append(b.ErrorRecorded("Declined", "no", failed='["pay:1"]'))


async def test_all_that_failed_beside_each_other_is_made_again(node: Node, log: MemoryLog) -> None:
    """Each branch of a task group, and what an exception was raised from."""
    bodies = [Counted(Declined("no"), "one"), Counted(Declined("no"), "two")]

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> list[Any]:
        calls = [process.step("pay", body) for body in bodies]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        errors = [one for one in answers if isinstance(one, Exception)]
        if errors:
            raise RuntimeError("both") from ExceptionGroup("both", errors)
        return answers

    await fails(node, run, kind=RuntimeError)
    assert await node.run(run, "p", retry_failed=True) == ["one", "two"]
    assert [one.keys for one in of_kind(log, b.CallsSetAside)] == ['["pay:1","pay:2"]']


async def test_a_failed_effect_is_not_made_again_unless_it_is_named(node: Node, log: MemoryLog) -> None:
    """One that may have been sent is refused even then."""
    pay = Counted(RuntimeError("closed"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        return await process.effect("pay", pay)

    await fails(node, run, kind=Exception)
    await fails(node, run, kind=Exception, retry_failed=True)
    await fails(node, run, kind=Refused, retry_failed=["pay:1"])
    await fails(node, run, kind=Refused, retry_failed=["nothing:1"])
    assert len(pay.runs) == 1


async def test_an_effect_inside_a_step_that_is_made_again_stays_failed(node: Node) -> None:
    """Unless nothing was done for certain: then the body may ask for it again."""
    pay, book = Counted(ValueError("gone wrong"), "paid"), Counted(NotDone("closed"), "booked")

    def running(name: str, body: Counted, semantics: str) -> Any:
        @agent(name, version="1")
        async def run(process: Process, _: Any) -> Any:
            async def around() -> Any:
                return await process.effect("pay", body, semantics=semantics, retry=Retry(attempts=1))

            return await process.step("around", around)

        return run

    sure = running("sure", pay, Effect.IDEMPOTENT)
    await fails(node, sure, kind=Exception)
    await fails(node, sure, kind=Exception, retry_failed=True)
    assert len(pay.runs) == 1
    undone = running("undone", book, Effect.AT_MOST_ONCE)
    await fails(node, undone, "q", kind=Exception)
    assert await node.run(undone, "q", retry_failed=True) == "booked"


async def test_what_succeeded_inside_a_step_that_is_made_again_stays(node: Node) -> None:
    """What failed inside it is asked again with it."""
    look, pay = Counted("there"), Counted(Declined("no"), "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        async def both() -> list[Any]:
            return [await process.step("look", look), await process.step("pay", pay)]

        return await process.step("both", both)

    await fails(node, run)
    assert await node.run(run, "p", retry_failed=True) == ["there", "paid"]
    assert (len(look.runs), len(pay.runs)) == (1, 2)


async def test_a_child_that_failed_is_told_to_try_again_too(node: Node) -> None:
    """Its parent asks it; what succeeded in it stays."""
    pay = Counted(Declined("no"), "paid")

    @agent("child", version="1")
    async def child(process: Process, _: Any) -> Any:
        return await process.step("pay", pay)

    @agent("parent", version="1")
    async def parent(process: Process, _: Any) -> Any:
        return await process.spawn(child, "c", 1).result()

    await fails(node, parent)
    await fails(node, parent)
    assert await node.run(parent, "p", retry_failed=True) == "paid"


async def test_a_retry_that_is_cut_goes_on_without_being_asked(log: MemoryLog) -> None:
    """The entry is in the journal: whoever resumes makes the call."""
    pay = Counted(Declined("no"), CUT, "paid")

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        return await process.step("pay", pay)

    async with Node.in_memory(log) as node:
        await fails(node, run)
        await cut_off(node.run(run, "p", retry_failed=True))
    async with Node.in_memory(log) as node:
        assert await node.run(run, "p") == "paid"


async def test_a_process_that_has_nothing_to_make_again_only_resumes(node: Node, log: MemoryLog) -> None:
    """The failure was the code's own, or there is none."""
    tries = []

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise Declined("of itself")
        return "fine"

    await fails(node, run, retry_failed=True)
    assert await node.run(run, "p", retry_failed=True) == "fine"
    assert await node.run(run, "p", retry_failed=True) == "fine"
    assert of_kind(log, b.CallsSetAside) == []


def test_an_exception_tells_whose_failure_it_is() -> None:
    """Its own, its group's, or that of what it was raised from or beside."""
    one, two = tagged(ValueError(), "a:1"), tagged(KeyError(), "b:1")
    assert failed_calls(one) == ["a:1"]
    assert failed_calls(ExceptionGroup("", [one, ExceptionGroup("", [two, one])])) == ["a:1", "b:1"]
    with pytest.raises(RuntimeError) as beside:
        try:
            raise one
        except ValueError:
            raise RuntimeError  # noqa: B904  # beside it
    assert failed_calls(beside.value) == ["a:1"]
    assert failed_calls(EffectFailed("nothing")) == []


class Looks:
    """A body that is cut off at first, then fails, then answers."""

    def __init__(self) -> None:
        self.runs = 0
        self.began = asyncio.Event()

    async def __call__(self) -> str:
        self.runs += 1
        if self.runs == 1:
            await asyncio.sleep(0)
            self.began.set()
            await asyncio.Event().wait()
        if self.runs == 2:
            raise Declined("not yet")
        return "seen"


@pytest.mark.parametrize("in_doubt", [False, True])
async def test_a_step_in_doubt_has_all_its_attempts_again_on_request(
    node: Node, log: MemoryLog, in_doubt: bool
) -> None:
    """Another branch failed while it ran. Resumed as it is, it has the attempts that are left."""
    looks, pay = Looks(), Counted(Declined("no"), "paid")

    async def later() -> Any:
        await looks.began.wait()
        return await pay()

    @agent("a", version="1")
    async def run(process: Process, _: Any) -> Any:
        look = process.step("look", looks, retry=Retry(attempts=2, backoff_s=0.001))
        return await process.gather(look, process.step("pay", later))

    await fails(node, run)
    await node.redrive("p", in_doubt=in_doubt)
    if in_doubt:
        assert await node.run(run, "p", retry_failed=True) == ["seen", "paid"]
    else:
        await fails(node, run, retry_failed=True)
    assert looks.runs == (3 if in_doubt else 2)
    (aside,) = of_kind(log, b.CallsSetAside)
    assert json.loads(aside.keys) == ["pay:1", *(["look:1"] if in_doubt else [])]
