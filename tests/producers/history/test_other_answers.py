"""Which answers a call may be given, and which processes go back at all. In memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from seekpoint.producers import HistoryPoint, Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.errors import Cancelled, LimitExceeded, Refused, UnserializableValue

done: Counter[str] = Counter()


async def pay(amount: int) -> int:
    done["paid"] += 1
    return amount


async def take_back(amount: int, *, output: Any) -> None:
    done["took back"] += 1


@agent("sampling")
async def sampling(process: Process, given: None = None) -> list[Any]:
    """Take samples, pay, and wait for a person."""
    found = [await process.now(), await process.uuid(), await process.random()]
    found.append(await process.sample("setting", lambda: 5))
    await process.effect("pay", pay, 1, compensate=take_back)
    answer = await process.gate("go")
    return [*found, answer.outcome, answer.payload, answer.actor, answer.reason]


async def waiting(node: Node, process_id: str) -> None:
    """Run the process until it waits for the person, and cut the run off there."""
    run = asyncio.ensure_future(node.run(sampling, process_id))
    async with asyncio.timeout(10):
        while not (await node.recover(process_id, missing_ok=True)).state.waits_for:
            assert not run.done(), run
            await asyncio.sleep(0.005)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


@pytest.mark.parametrize(
    ("key", "answer", "refused", "why"),
    [
        ("now:1", 5, Refused, r"is a time .*\$datetime"),
        ("now:1", "2026-11-25T10:00:00+00:00", Refused, r"is a time .*\$datetime"),
        ("uuid:1", "x", Refused, r"is a UUID .*\$uuid"),
        ("setting:1", float("nan"), UnserializableValue, "not finite"),
        ("setting:1", "x" * DEFAULT_LIMITS.record_bytes, LimitExceeded, "larger than an entry"),
        ("go:1", {"outcome": "approved", "actor": 5}, Refused, "are texts"),
        ("go:1", {"outcome": "denied", "reason": ["no"]}, Refused, "are texts"),
        ("pay:1", 1, Refused, "is a fact"),
    ],
)
async def test_an_answer_that_no_run_of_the_call_can_return_is_refused(
    key: str, answer: Any, refused: type[Exception], why: str
) -> None:
    """Before anything is written: the id of the fork stays free."""
    async with Node.in_memory(MemoryLog()) as node:
        await waiting(node, "p")
        await node.approve("p", "go")
        await node.run(sampling, "p")
        with pytest.raises(refused, match=why):
            await node.plan_fork("p", answers={key: answer})
        with pytest.raises(refused, match=why):
            await node.fork("p", "q", answers={key: answer})
        assert not (await node.recover("q", missing_ok=True)).known


async def test_answers_of_the_right_kind_reach_the_code() -> None:
    moment, number = datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7)
    answers = {
        "now:1": moment, "uuid:1": number, "random:1": 0.25, "setting:1": {"now": "another type"},
        "go:1": {"outcome": "denied", "payload": [1], "actor": "bo", "reason": "why not"},
    }  # fmt: skip
    async with Node.in_memory(MemoryLog()) as node:
        await waiting(node, "p")
        await node.approve("p", "go")
        await node.run(sampling, "p")
        async with node.fork("p", "q", at=HistoryPoint.after("go:1"), answers=answers):
            pass
        told = await node.run(sampling, "q")
        assert told == [moment, number, 0.25, {"now": "another type"}, "denied", [1], "bo", "why not"]


async def test_the_moment_after_a_call_that_is_open_is_told_apart_from_one_that_never_was() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await waiting(node, "p")
        with pytest.raises(Refused, match="has not ended"):
            await node.rewind("p", answers={"go:1": "approved"})
        with pytest.raises(Refused, match="no such moment"):
            await node.rewind("p", answers={"come:1": "approved"})


async def test_a_cancelled_process_does_not_go_back_but_can_be_forked() -> None:
    """No code would go on with it: it stays cancelled, whatever its calls are. So it is not changed at all."""
    done.clear()
    async with Node.in_memory(MemoryLog()) as node:
        await waiting(node, "p")
        async with node.fork("p", "q"):
            pass
        async with node.open("q") as fork:
            await fork.update("a", 1)
        await node.cancel("p", "not wanted")
        with pytest.raises(Cancelled):
            await node.run(sampling, "p")
        seq = (await node.recover("p")).state.seq
        for is_dry in (True, False):
            with pytest.raises(Refused, match="cancelled process does not go back"):
                await node.rewind("p", HistoryPoint.before("pay:1"), dry_run=is_dry)
            with pytest.raises(Refused, match="was cancelled"):
                await node.promote("q", prefer="fork", dry_run=is_dry)
        with pytest.raises(Refused, match="was cancelled"):
            await node.rerun(sampling, "p")
        assert (await node.recover("p")).state.seq == seq
        assert done == {"paid": 1, "took back": 1}
        async with node.fork("p", "r", at=HistoryPoint.before("pay:1"), effects="live"):
            pass
        await node.approve("r", "go", in_advance=True)
        assert (await asyncio.wait_for(node.run(sampling, "r"), 10))[4] == "approved"
        assert done == {"paid": 2, "took back": 1}
