"""New code on a replayed history, in staging: the record answers, and nothing outside is changed."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.consumers import Replay
from seekpoint.consumers.staging import MemoryTopic
from seekpoint.producers import Dispatcher, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Refused

done: list[str] = []


async def ask(request: Any) -> Any:
    """A model."""
    done.append("asked")
    return {"amount": 5}


async def pay(amount: int) -> str:
    """Money that moves."""
    done.append("paid")
    return "r-1"


@agent("refund", version="1")
async def old(process: Process, given: Any) -> Any:
    """Breaks behind its effect, in production."""
    plan = await process.decide("plan", ask, {"model": "m"})
    receipt = await process.effect("pay", pay, plan["amount"])
    raise ValueError(receipt)


@agent("refund", version="2")
async def new(process: Process, given: Any) -> Any:
    """Goes on where it broke."""
    plan = await process.decide("plan", ask, {"model": "m"})
    receipt = await process.effect("pay", pay, plan["amount"])
    if given == "more":
        await process.effect("pay", pay, 2)
    return await process.step("note", str, receipt)


async def staged(given: str) -> MemoryLog:
    """What happened in production, replayed into a log in memory."""
    production, staging = MemoryLog(partitions=1), MemoryLog(partitions=1)
    async with Node.in_memory(production) as node:
        with pytest.raises(ValueError, match="r-1"):
            await node.run(old, "p", given)
    source, target = MemoryTopic(1, cluster_id="prod"), MemoryTopic(1, cluster_id="staging")
    for batch in production.read(0, 0, production.watermarks(0).high):
        for record in batch.records:
            source.append(0, record.key, record.value or b"", timestamp_ms=record.timestamp_ms)
    assert Replay(source, target).run().checked
    for kept in target.records(0):
        staging.append(0, kept.key(), kept.value())
    return staging


async def test_new_code_goes_on_with_what_production_recorded() -> None:
    """The model is not asked, the money is not moved; what comes behind the history runs."""
    done.clear()
    log = await staged("once")
    async with Node.in_memory(log, effects="recorded") as node:
        assert await node.run(new, "p", take_over=True) == "r-1"
    assert done == ["asked", "paid"]


async def test_an_effect_without_a_record_is_refused() -> None:
    """Before an intent is written; nobody dispatches either."""
    done.clear()
    log = await staged("more")
    async with Node.in_memory(log, effects="recorded") as node:
        with pytest.raises(Refused, match="from the record"):
            await node.run(new, "p", take_over=True)
        assert "pay:2" not in (await node.recover("p")).state.calls
        with pytest.raises(Refused):
            Dispatcher(node)
    assert done == ["asked", "paid"]
