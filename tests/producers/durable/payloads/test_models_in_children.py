"""Models as inputs and results of children and of submitted runs. In memory."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from cuts import of_kind
from model_agent import ORDER, RESULT, SEEN, Receipt, refund, same, untyped
from payload_models import Item
from seekpoint.producers import (
    Client,
    Node,
    Process,
    Worker,
    agent,
)
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    InvalidValue,
    RecordedValueInvalid,
    RunFailed,
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class TestChildren:
    async def test_a_child_takes_and_returns_models(self, node: Node, log: MemoryLog) -> None:
        """In the first run of the parent and in the next one."""

        @agent("parent")
        async def parent(process: Process, given: Any) -> int:
            child = process.spawn(refund, f"{process.process_id}.1", ORDER)
            SEEN.append(found := await child.result())
            if SEEN.count(found) == 1:
                raise ValueError("broken")
            return found.number

        with pytest.raises(ValueError, match="broken"):
            await node.run(parent, "p", None)
        assert await node.run(parent, "p", None) == 4711
        assert SEEN[-2:] == [RESULT, RESULT]

    async def test_a_child_is_not_spawned_with_an_input_that_does_not_fit(self, node: Node, log: MemoryLog) -> None:
        """Its parent fails, and can be resumed with better code."""

        @agent("parent")
        async def parent(process: Process, given: Any) -> int:
            child = process.spawn(refund, "c", untyped({"number": 5, "itms": []}))
            return (await child.result()).number

        for _ in range(2):
            with pytest.raises(InvalidValue, match="did you mean 'items'"):
                await node.run(parent, "p", None)
        assert of_kind(log, b.ChildSpawned) == []


class TestWorkers:
    async def test_a_submitted_run_takes_and_returns_models(self) -> None:
        """Through the inbox and a worker; the handle, the agent and a type rebuild the result."""
        log = MemoryLog(partitions=2)
        async with Worker.in_memory([refund], log=log), Client.in_memory(log) as client:
            run = await client.submit(refund, "p", ORDER)
            assert await run.result(timeout=20) == RESULT
            assert same(SEEN)
            assert await (await client.submit(refund, "p", ORDER)).result(timeout=20) == RESULT
            assert await client.result("p", 20, type=refund) == RESULT
            assert await client.result("p", 20, type=Receipt) == RESULT
            assert await client.result("p", 20) == {"number": 4711, "amount": Decimal("12.50")}
            with pytest.raises(RecordedValueInvalid, match="the result does not fit Item"):
                await client.result("p", 20, type=Item)
            by_name = await client.submit("refund", "q", ORDER)
            assert await by_name.result(timeout=20) == {"number": 4711, "amount": Decimal("12.50")}

    async def test_a_submission_is_checked_by_whoever_has_the_code(self) -> None:
        """By the client if it has the agent; else by the worker, whose run fails with the error and can be redriven."""
        log = MemoryLog(partitions=1)
        async with Worker.in_memory([refund], log=log), Client.in_memory(log) as client:
            with pytest.raises(InvalidValue, match="the input of refund does not fit DataOrder"):
                await client.submit(refund, "p", untyped({"number": "x"}))
            assert (await client.status("p")).stage == "unknown"
            run = await client.submit("refund", "q", {"number": "x"})
            with pytest.raises(RunFailed, match=r"InputMisfit: the input of refund does not fit DataOrder"):
                await run.result(timeout=20)
            assert (await client.status("q")).stage == "failed"
            assert SEEN == []

    async def test_a_submission_by_name_is_the_same_run_as_that_of_a_model(self) -> None:
        """Though its text leaves out the members that have defaults."""

        @agent("item")
        async def item(process: Process, given: Item) -> Item:
            await process.receive("go")
            return given

        log = MemoryLog(partitions=1)
        async with Worker.in_memory([item], log=log), Client.in_memory(log) as client:
            await client.submit("item", "p", {"name": "a"})
            await client.signal("p", "go")
            run = await client.submit(item, "p", Item("a"))
            assert await run.result(timeout=20) == Item("a")
