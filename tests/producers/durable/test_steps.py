"""Steps: done once, then remembered. In memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from cuts import bodies, of_kind, until
from seekpoint.producers import Node, Process, Retry, VirtualClock, step
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    Fenced,
    LimitExceeded,
    Refused,
    ReplayDivergence,
    StepFailed,
    UnserializableValue,
)
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.values import load


class Counted:
    """A callable that counts how often it ran; what it does is up to the test."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.runs: list[tuple[Any, ...]] = []

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.runs.append((*arguments, *options.values()))
        result = self.results[min(len(self.runs), len(self.results)) - 1] if self.results else None
        if isinstance(result, BaseException):
            raise result
        return result


async def twice(node: Node, work: Callable[[Process], Any]) -> list[Any]:
    """Run ``work`` on the process, leave it, and run it again."""
    results = []
    for _ in range(2):
        async with node.open("p") as process:
            results.append(await work(process))
    return results


async def test_a_step_runs_once_and_is_remembered(node: Node, log: MemoryLog) -> None:
    """Opened again, the same code gets the same result, and the body does not run."""
    body = Counted({"rows": [1, 2]})
    first, again = await twice(node, lambda process: process.step("look", body, "order-1", limit=3))
    assert first == again == {"rows": [1, 2]}
    assert body.runs == [("order-1", 3)]
    started, ended = of_kind(log, b.StepStarted), of_kind(log, b.StepEnded)
    assert [(one.key, one.position, one.attempt, one.idempotency_key) for one in started] == [
        ("look:1", 1, 1, "p/look:1")
    ]
    assert load(started[0].arguments) == {"arguments": ["order-1"], "options": {"limit": 3}}
    assert [(one.key, one.outcome, load(one.output)) for one in ended] == [("look:1", "succeeded", {"rows": [1, 2]})]


@pytest.mark.parametrize(
    "value",
    [None, "", 0, False, [], {}, (), 1.0, 1, True, Decimal("1.10"), b"\0", {1, 2}, (1, [2, (3,)]), timedelta(days=3)],
)
async def test_every_result_is_remembered_exactly_and_empty_ones_too(node: Node, value: Any) -> None:
    """A step with an empty result must not run again."""
    body = Counted(value)
    first, again = await twice(node, lambda process: process.step("look", body))
    assert (first, type(first)) == (again, type(again)) == (value, type(value))
    assert len(body.runs) == 1


async def test_the_first_run_gets_what_a_replay_gets(node: Node) -> None:
    """A dict comes back with its keys sorted, both times: code that walks it goes the same way."""
    body = Counted({"b": 1, "a": 2})
    results = await twice(node, lambda process: process.step("look", body))
    assert [list(result) for result in results] == [["a", "b"], ["a", "b"]]


async def test_the_same_name_twice_is_two_steps(node: Node) -> None:
    """An engine gave the first result for both."""
    body = Counted("one", "two")

    async def work(process: Process) -> list[Any]:
        return [await process.step("ask", body, "q") for _ in range(2)]

    assert await twice(node, work) == [["one", "two"], ["one", "two"]]
    assert len(body.runs) == 2


async def test_gathered_steps_have_the_order_of_the_program(node: Node, log: MemoryLog) -> None:
    """They take their places when they are made, whichever runs first."""

    async def slow(text: str) -> str:
        for _ in range(10 - len(text)):
            await asyncio.sleep(0)
        return text

    async def work(process: Process) -> list[Any]:
        said: list[Any] = await asyncio.gather(*(process.step("say", slow, text) for text in ("x", "xxx", "xx")))
        return said

    assert await twice(node, work) == [["x", "xxx", "xx"]] * 2
    started = {one.key: load(one.arguments) for one in of_kind(log, b.StepStarted)}
    assert started == {"say:1": ["x"], "say:2": ["xxx"], "say:3": ["xx"]}


async def test_a_step_in_a_task_of_its_own_counts_there(node: Node) -> None:
    """Branches that gather their own steps are found again."""
    body = Counted(*range(4))

    async def branch(process: Process, name: str) -> list[Any]:
        return [await process.step(name, body), await process.step(name, body)]

    async def work(process: Process) -> list[Any]:
        found: list[Any] = await asyncio.gather(branch(process, "a"), branch(process, "b"))
        return found

    first, again = await twice(node, work)
    assert first == again
    assert len(body.runs) == 4


async def test_a_step_inside_a_step_is_remembered_with_it(node: Node, log: MemoryLog) -> None:
    """Its key begins with the outer one's; once that has ended neither runs."""
    inner = Counted("deep")

    async def work(process: Process) -> Any:
        async def outer() -> Any:
            return [await process.step("inner", inner), await process.step("inner", inner)]

        return await process.step("outer", outer)

    assert await twice(node, work) == [["deep", "deep"]] * 2
    assert len(inner.runs) == 2
    assert {one.key for one in of_kind(log, b.StepStarted)} == {"outer:1", "outer:1/inner:1", "outer:1/inner:2"}


async def test_an_explicit_key_names_the_step(node: Node, log: MemoryLog) -> None:
    """And is part of the idempotency key."""
    async with node.open("p") as process:
        await process.step("pay", Counted(1), key="order-7")
        with pytest.raises(Refused, match="used before"):
            await process.step("pay", Counted(1), key="order-7")
    assert of_kind(log, b.StepStarted)[0].idempotency_key == "p/order-7"


async def test_plain_functions_run_in_a_thread(node: Node) -> None:
    """The event loop goes on; what they return may be awaitable."""

    goes_on = threading.Event()

    def plain(value: int) -> tuple[int, bool]:
        assert goes_on.wait(60)
        return value + 1, threading.current_thread() is threading.main_thread()

    async with node.open("p") as process:
        asyncio.get_running_loop().call_later(0.01, goes_on.set)
        assert await process.step("plain", plain, 1) == (2, False)
        body = Counted("late")
        assert await process.step("lambda", lambda: body()) == "late"


# --- failures
class Declined(Exception):
    """A user's error."""


async def failing(process: Process, body: Any, **how: Any) -> str:
    try:
        await process.step("pay", body, **how)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return "fine"


async def test_a_plain_function_that_stops_an_iteration_fails_and_hangs_nobody(log: MemoryLog) -> None:
    """``next()`` of nothing, in a thread: no future can carry its StopIteration."""
    ran: list[int] = []

    def look() -> Any:
        ran.append(1)
        return next(iter(()))

    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            with pytest.raises(RuntimeError, match="StopIteration"):
                await asyncio.wait_for(process.step("look", look), 60)
    assert ran == [1]


async def test_a_failure_is_remembered_and_raised_again(node: Node, log: MemoryLog) -> None:
    """The same class, the same message; the body does not run again."""
    body = Counted(Declined("no money"))
    assert await twice(node, lambda process: failing(process, body)) == ["Declined: no money"] * 2
    assert len(body.runs) == 1
    assert of_kind(log, b.StepEnded)[0].outcome == "failed"


async def test_a_class_that_cannot_be_imported_fails_alike_both_times(node: Node) -> None:
    """The first run sees StepFailed too, with the cause."""

    class Local(Exception):
        pass

    body = Counted(Local("why"))
    results = await twice(node, lambda process: failing(process, body))
    assert [result.partition(":")[0] for result in results] == ["StepFailed"] * 2
    async with node.open("q") as process:
        with pytest.raises(StepFailed) as caught:
            await process.step("pay", body)
        assert isinstance(caught.value.__cause__, Local)


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}])
async def test_a_result_that_cannot_be_journaled_is_a_failure_that_names_the_step(node: Node, value: Any) -> None:
    """The work was done: it is not done again, however many attempts were allowed."""
    body = Counted(value)
    results = await twice(node, lambda process: failing(process, body, retry=Retry(attempts=3)))
    assert results[0] == results[1]
    assert results[0].startswith("UnserializableValue: the result of pay:1")
    assert len(body.runs) == 1


async def test_a_result_that_is_too_large_is_a_failure_too() -> None:
    """By the limits of a value, or of an entry."""
    log = MemoryLog(limits=Limits(record_bytes=20_000, items=10))
    async with Node.in_memory(log) as node, node.open("p") as process:
        for value in ("x" * 30_000, list(range(20))):
            with pytest.raises(LimitExceeded):
                await process.step("make", Counted(value))
        assert [one.outcome for one in of_kind(log, b.StepEnded)] == ["failed", "failed"]


async def test_an_argument_that_cannot_be_journaled_is_refused_before_anything_happens(
    node: Node, log: MemoryLog
) -> None:
    """And takes no place."""
    body = Counted("fine")
    async with node.open("p") as process:
        with pytest.raises(UnserializableValue):
            await process.step("pay", body, object())
        await process.step("pay", body)
    assert [one.key for one in of_kind(log, b.StepStarted)] == ["pay:1"]


# --- attempts
async def test_a_failed_attempt_is_tried_again_after_a_wait(node: Node, log: MemoryLog) -> None:
    """Each attempt is recorded; the waits grow."""
    body = Counted(Declined("1"), Declined("2"), "done")
    clock = node.clock
    async with node.open("p") as process:
        before = clock.monotonic()
        assert await process.step("pay", body, retry=Retry(attempts=3, backoff_s=10, jitter=0)) == "done"
        assert clock.monotonic() - before == pytest.approx(30)
    assert [(one.attempt, one.idempotency_key) for one in of_kind(log, b.StepStarted)] == [
        (1, "p/pay:1"), (2, "p/pay:1"), (3, "p/pay:1"),
    ]  # fmt: skip
    assert [(one.attempt, one.outcome) for one in of_kind(log, b.StepEnded)] == [
        (1, "retry"), (2, "retry"), (3, "succeeded"),
    ]  # fmt: skip


async def test_attempts_end_and_the_last_error_is_the_failure(node: Node) -> None:
    """Remembered as the first run saw it."""
    body = Counted(Declined("1"), Declined("2"), Declined("3"))
    results = await twice(node, lambda process: failing(process, body, retry=Retry(attempts=2)))
    assert results == ["Declined: 2"] * 2
    assert len(body.runs) == 2


async def test_a_final_error_ends_the_attempts(node: Node) -> None:
    """What the user names is not tried again."""
    body = Counted(Declined("1"), "never")
    async with node.open("p") as process:
        assert await failing(process, body, retry=Retry(attempts=5, non_retryable=(Declined,))) == "Declined: 1"
    assert len(body.runs) == 1


async def test_the_wait_before_an_attempt_survives_the_owner(log: MemoryLog) -> None:
    """Whoever resumes waits what is left of it, and goes on counting."""
    body, clock = Counted(Declined("1"), "done"), VirtualClock(skips=False)
    retry = Retry(attempts=2, backoff_s=100, backoff_max_s=100, jitter=0)
    async with Node.in_memory(log, clock=clock) as node:
        process = await node.open("p")
        task = asyncio.create_task(process.step("pay", body, retry=retry))
        await until(lambda: of_kind(log, b.StepEnded))
        clock.advance(30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await process.release()
    heirs = VirtualClock(clock.now_us())
    async with Node.in_memory(log, clock=heirs) as node, node.open("p") as process:
        assert await process.step("pay", body, retry=retry) == "done"
    assert heirs.monotonic() == pytest.approx(70)
    assert [(one.attempt, one.outcome) for one in of_kind(log, b.StepEnded)] == [(1, "retry"), (2, "succeeded")]


async def test_a_further_attempt_keeps_the_steps_that_succeeded_inside(node: Node) -> None:
    """Only what failed is done again: a card is not charged twice."""
    charge, ship = Counted("charged"), Counted(Declined("no truck"), "shipped")

    async def work(process: Process) -> Any:
        async def order() -> Any:
            return [await process.step("charge", charge), await process.step("ship", ship)]

        return await process.step("order", order, retry=Retry(attempts=2))

    assert await twice(node, work) == [["charged", "shipped"]] * 2
    assert (len(charge.runs), len(ship.runs)) == (1, 2)


async def test_a_further_attempt_after_a_takeover_keeps_them_too(node: Node, log: MemoryLog) -> None:
    """The second attempt died in the middle: the third keeps what the first one did."""
    charge, ship = Counted("charged"), Counted(Declined("no truck"), "shipped")
    stuck = asyncio.Event()
    hang = True

    async def work(process: Process) -> Any:
        async def order() -> Any:
            found = [await process.step("charge", charge), await process.step("ship", ship)]
            if hang:
                stuck.set()
                await asyncio.Event().wait()
            return found

        return await process.step("order", order, retry=Retry(attempts=3))

    process = await node.open("p")
    task = asyncio.create_task(work(process))
    await asyncio.wait_for(stuck.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await process.release()
    hang = False
    async with node.open("p") as process:
        assert await asyncio.create_task(work(process)) == ["charged", "shipped"]
    assert (len(charge.runs), len(ship.runs)) == (1, 2)
    assert [one.attempt for one in of_kind(log, b.StepStarted) if one.key.endswith("order:1")] == [1, 2, 3]


# --- time, cancellation, doubt
async def test_an_attempt_that_takes_too_long_is_a_failure(node: Node) -> None:
    """TimeoutError, remembered; by the process's clock."""

    async def slow(process: Process) -> None:
        await process.clock.sleep(3600)

    async def work(process: Process) -> str:
        return await failing(process, lambda: slow(process), timeout=timedelta(seconds=5))

    assert await twice(node, work) == ["TimeoutError: pay:1 took longer than 5.0 s"] * 2


async def test_a_timeout_of_the_callables_own_stays_as_it_is(node: Node) -> None:
    """It is not taken for the step's."""
    async with node.open("p") as process:
        assert await failing(process, Counted(TimeoutError("the bank's")), timeout=5) == "TimeoutError: the bank's"


async def test_a_cancelled_step_is_in_doubt_and_runs_again_with_the_same_key(node: Node, log: MemoryLog) -> None:
    """Whether it was done, nobody knows: its idempotency key makes it safe."""
    keys = []

    async def pay(*, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "paid"

    process = await node.open("p")
    task = asyncio.create_task(process.step("pay", pay))
    await until(lambda: keys)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await process.release()
    async with node.open("p") as process:
        assert await process.step("pay", pay) == "paid"
    assert keys == ["p/pay:1", "p/pay:1"]
    assert [one.attempt for one in of_kind(log, b.StepStarted)] == [1, 2]
    assert len(of_kind(log, b.StepEnded)) == 1


async def test_a_step_of_a_fenced_owner_is_not_remembered_as_failed(log: MemoryLog) -> None:
    """The new owner finds it in doubt."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as other:
        process = await one.open("p")

        async def body() -> None:
            async with other.open("p", take_over=True) as theirs:
                await theirs.update("mine", True)
                await process.confirm()

        with pytest.raises(Fenced):
            await process.step("work", body)
        process.let_go()
        assert (await other.recover("p")).state.calls["work:1"].status == "started"


async def test_the_number_of_rewinds_is_part_of_the_idempotency_key(node: Node, log: MemoryLog) -> None:
    """What was forgotten on purpose is done anew, as something new."""
    body = Counted(1, 2)
    async with node.open("p") as process:
        await process.update("status", "new")
        await process.step("pay", body)
        await process.rewind(1)
        assert await process.step("pay", body) == 2
    assert [one.idempotency_key for one in of_kind(log, b.StepStarted)] == ["p/pay:1", "p/pay:1~1"]


# --- strict and permissive
async def test_another_argument_diverges_and_nothing_runs(node: Node) -> None:
    """Kind, key, seq, expected and actual are told."""
    async with node.open("p") as process:
        await process.step("look", Counted("x"), 1)
    body = Counted("never")
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence) as caught:
            await process.step("look", body, 1.0)
        assert (caught.value.kind, caught.value.key, caught.value.seq) == ("input", "look:1", 1)
    assert body.runs == []


async def test_permissive_runs_what_has_no_answer_and_notes_it(node: Node, log: MemoryLog) -> None:
    """The next run is answered from both."""
    async with node.open("p") as process:
        await process.step("a", Counted("a"), 1)
        await process.step("b", Counted("b"), 1)
    body = Counted("new")

    async def changed(process: Process) -> list[Any]:
        return [await process.step("a", body, 2), await process.step("b", body, 1)]

    async with node.open("p", replay="permissive") as process:
        assert await changed(process) == ["new", "b"]
    assert [(one.key, one.kind) for one in of_kind(log, b.Diverged)] == [("a:1", "input")]
    async with node.open("p", replay="permissive") as process:
        assert await changed(process) == ["new", "b"]
    assert len(body.runs) == 1


async def test_patched_code_runs_where_the_history_has_no_say(node: Node) -> None:
    """A run that began without the change keeps the old way; a new one takes the new way and keeps it."""
    old, new = Counted("old"), Counted("new")

    async def first(process: Process) -> Any:
        return await process.step("ask", old)

    async def second(process: Process) -> Any:
        if process.patched("better-question"):
            return await process.step("ask", new, "please")
        return await process.step("ask", old)

    async with node.open("p") as process:
        await first(process)
    assert await twice(node, second) == ["old", "old"]
    for _ in range(2):
        async with node.open("q") as process:
            assert await second(process) == "new"
    assert (len(old.runs), len(new.runs)) == (1, 1)


# --- the decorator
@step(retry=Retry(attempts=2, backoff_s=0))
async def look_up(order: str, *, limit: int = 10) -> str:
    """Look an order up."""
    return f"{order}/{limit}"


@step("plain")
def plain(value: int) -> int:
    return value * 2


async def test_a_function_can_be_a_step_wherever_it_is_called(node: Node, log: MemoryLog) -> None:
    """By its own name, or the one it is given."""
    async with node.open("p") as process:
        assert await look_up(process, "4711", limit=3) == "4711/3"
        assert await plain(process, 4) == 8
    assert [one.key for one in of_kind(log, b.StepStarted)] == ["look_up:1", "plain:1"]
    assert look_up.__doc__ == "Look an order up."
    assert await look_up.call("1") == "1/10"


async def test_a_body_that_never_waits_has_one_entry_for_start_and_end(node: Node, log: MemoryLog) -> None:
    """One that waits has two; what was held leaves before anything else of its process."""

    async def waits(process: Process) -> None:
        await process.update("inside", True)

    async def nests(process: Process) -> None:
        await process.step("inner", Counted(2))

    async with node.open("p") as process:
        await process.step("quick", Counted(1), "asked")
        await process.step("slow", partial(waits, process))
        await process.step("nested", partial(nests, process))
    said = bodies(log)
    kinds = [(type(body).__name__, getattr(body, "key", "")) for body in said][1:-1]
    assert kinds == [
        ("StepEnded", "quick:1"),
        ("StepStarted", "slow:1"), ("ContextUpdated", "inside"), ("StepEnded", "slow:1"),
        ("StepStarted", "nested:1"), ("StepEnded", "nested:1/inner:1"), ("StepEnded", "nested:1"),
    ]  # fmt: skip
    assert isinstance(said[1], b.StepEnded)
    began = said[1].began
    assert began is not None
    assert began == b.StepStarted(
        key="quick:1", position=1, name="quick", digest=began.digest, arguments='["asked"]',
        idempotency_key="p/quick:1", started_at_us=began.started_at_us,
    )  # fmt: skip


async def test_each_attempt_says_once_when_it_began(node: Node, log: MemoryLog) -> None:
    """Not when its start left, late in the body or with the end: with it, if the body never waits, else before it."""
    clock, began = node.clock, list[int]()
    assert isinstance(clock, VirtualClock)

    async def slow() -> str:
        began.append(clock.now_us())
        clock.advance(5)  # work that gives nobody else a turn
        if len(began) % 2 == 0:
            await asyncio.sleep(0)
            clock.advance(5)
        if len(began) < 4:
            raise ConnectionError("gone")
        return "there"

    async with node.open("p") as process:
        assert await process.step("slow", slow, retry=Retry(attempts=4)) == "there"
    starts = of_kind(log, b.StepStarted)
    assert [(one.attempt, one.started_at_us) for one in starts] == list(enumerate(began, start=1))
    ends = of_kind(log, b.StepEnded)
    assert [(one.attempt, one.started_at_us is None) for one in ends] == [(1, False), (2, True), (3, False), (4, True)]
    assert [one.ended_at_us - at for one, at in zip(ends, began, strict=True)] == [5_000_000, 10_000_000] * 2
    assert [one.duration_us for one in ends] == [5_000_000, 10_000_000] * 2


async def test_arguments_too_large_for_an_entry_are_refused_before_the_body_runs() -> None:
    """As a start that leaves at once would be."""
    async with Node.in_memory(MemoryLog(limits=Limits(record_bytes=100_000))) as node, node.open("p") as process:
        body = Counted(1)
        with pytest.raises(LimitExceeded):
            await process.step("make", body, "x" * 200_000)
        assert body.runs == []


async def test_a_call_from_a_thread_is_refused(node: Node) -> None:
    """A plain function's body has no event loop: the hint says what to do."""
    async with node.open("p") as process:
        with pytest.raises(Refused, match="event loop"):
            await process.step("outer", lambda: process.step("inner", Counted(1)))


async def test_a_divergence_inside_a_step_is_no_failure_of_the_step(node: Node) -> None:
    """It stays in doubt: the code is wrong, and the right code goes on."""
    stuck, names = asyncio.Event(), ["inner", "renamed", "inner"]

    async def outer(process: Process, name: str) -> str:
        await process.step(name, Counted(1))
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return "done"

    process = await node.open("p")
    task = asyncio.create_task(process.step("outer", partial(outer, process, names[0])))
    await asyncio.wait_for(stuck.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await process.release()
    async with node.open("p") as process:
        with pytest.raises(ReplayDivergence):
            await process.step("outer", partial(outer, process, names[1]))
    assert (await node.recover("p")).state.calls["outer:1"].status == "started"
    async with node.open("p") as process:
        assert await process.step("outer", partial(outer, process, names[2])) == "done"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda process: process.step("look", str, 1, retry=3),
        lambda process: process.step("look", str, 1, timeout=-1),
        lambda process: process.step("look", str, 1, timeout="soon"),
        lambda process: process.decide("plan", str, {}, retry=3),
        lambda process: process.effect("pay", str, 1, semantics="bogus"),
        lambda process: process.step(str, 1),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_runs(wrong: Any) -> None:
    """A typed error that says what is wanted, not one of Python's."""
    async with Node.in_memory() as node, node.open("p") as process:
        with pytest.raises(Refused):
            await wrong(process)
        assert not process.state.calls
