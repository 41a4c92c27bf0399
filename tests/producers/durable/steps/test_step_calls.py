"""Steps: done once, then remembered. In memory."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from counted_steps import Counted, twice
from cuts import bodies, of_kind
from seekpoint.producers import Node, Process, Retry, step
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import LimitExceeded, Refused, ReplayDivergence, UnserializableValue
from seekpoint.schemas.values.json_values import load


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


async def test_the_number_of_rewinds_is_part_of_the_idempotency_key(node: Node, log: MemoryLog) -> None:
    """What was forgotten on purpose is done anew, as something new."""
    body = Counted(1, 2)
    async with node.open("p") as process:
        await process.update("status", "new")
        await process.step("pay", body)
        await process.rewind(1)
        assert await process.step("pay", body) == 2
    assert [one.idempotency_key for one in of_kind(log, b.StepStarted)] == ["p/pay:1", "p/pay:1~1"]


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
    began = said[1].implied_start
    assert began is not None
    assert began == b.StepStarted(
        key="quick:1", position=1, name="quick", digest=began.digest, arguments='["asked"]',
        idempotency_key="p/quick:1", started_at_us=began.started_at_us,
    )  # fmt: skip


async def test_arguments_too_large_for_an_entry_are_refused_before_the_body_runs() -> None:
    """As a start that leaves at once would be."""
    async with Node.in_memory(MemoryLog(limits=Limits(record_bytes=100_000))) as node, node.open("p") as process:
        body = Counted(1)
        with pytest.raises(LimitExceeded):
            await process.step("make", body, "x" * 200_000)
        assert body.runs == []


async def test_a_result_that_does_not_fit_names_its_step_which_is_not_executed_again() -> None:
    """It fits no entry, or the state has no room for it."""
    log = MemoryLog(limits=Limits(record_bytes=100_000, state_bytes=150_000))
    body = Counted("x" * 90_000, "x" * 200_000, "x" * 90_000)
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            await process.step("fits", body)
            for name in ("entry", "state"):
                with pytest.raises(LimitExceeded, match=f"{name}:1 was executed, but its result") as failed:
                    await process.step(name, body)
                assert failed.value.facts["key"] == f"{name}:1"
    assert len(body.runs) == 3


async def test_a_call_from_a_thread_is_refused(node: Node) -> None:
    """A plain function's body has no event loop: the hint says what to do."""
    async with node.open("p") as process:
        with pytest.raises(Refused, match="event loop"):
            await process.step("outer", lambda: process.step("inner", Counted(1)))


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
