"""Steps that fail: remembered as results are, and raised again; an attempt that takes too long is one. In memory."""

from __future__ import annotations

import asyncio
import traceback
from datetime import timedelta
from typing import Any

import pytest

from counted_steps import Counted, Declined, failing, twice
from cuts import of_kind
from open_processes import durable_side
from seekpoint.producers import Node, Process, Retry
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import LimitExceeded, StepFailed


async def test_a_failure_is_remembered_and_raised_again(node: Node, log: MemoryLog) -> None:
    """The same class, the same message; the body does not run again."""
    body = Counted(Declined("no money"))
    assert await twice(node, lambda process: failing(process, body)) == ["Declined: no money"] * 2
    assert len(body.runs) == 1
    assert of_kind(log, b.StepEnded)[0].outcome == "failed"


async def test_a_class_that_cannot_be_imported_fails_alike_both_times(node: Node) -> None:
    """The first run sees StepFailed too, with the traceback of what happened and no cause that a later run has not."""

    class Local(Exception):
        pass

    body = Counted(Local("why"))
    results = await twice(node, lambda process: failing(process, body))
    assert [result.partition(":")[0] for result in results] == ["StepFailed"] * 2
    async with node.open("q") as process:
        with pytest.raises(StepFailed) as caught:
            await process.step("pay", body)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert "counted_steps.py" in "".join(traceback.format_exception(caught.value))


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


async def test_an_attempt_that_takes_too_long_is_a_failure(node: Node) -> None:
    """TimeoutError, remembered; by the process's clock."""

    async def slow(process: Process) -> None:
        await durable_side(process).clock.sleep(3600)

    async def work(process: Process) -> str:
        return await failing(process, lambda: slow(process), timeout=timedelta(seconds=5))

    assert await twice(node, work) == ["TimeoutError: pay:1 took longer than 5.0 s"] * 2


async def test_a_timeout_of_the_callables_own_stays_as_it_is(node: Node) -> None:
    """It is not taken for the step's."""
    async with node.open("p") as process:
        assert await failing(process, Counted(TimeoutError("the bank's")), timeout=5) == "TimeoutError: the bank's"
        assert await failing(process, Counted(TimeoutError()), timeout=5) == "TimeoutError: "
