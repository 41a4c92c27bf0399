"""Asking for a recovery: at least once on the wire, once for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery_service.answering import RequestAnswerer
from seekpoint.consumers.recovery_service.exchange import MemoryExchange
from seekpoint.producers import Node
from seekpoint.producers.recovery_client import Requests
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidName, Refused, RequestTimeout, TransactionOpen, UnknownPoint, UnknownProcess
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.log.recovery_requests import decode_request, encode_answer

_QUICK = Settings(redis_url=None, transaction_wait_s=0.05)


class Desk:
    """Answers what it finds in a ``MemoryExchange``, each record ``copies`` times."""

    def __init__(self, exchange: MemoryExchange, log: MemoryLog, copies: int = 1) -> None:
        self.exchange, self.copies = exchange, copies
        self.answering = RequestAnswerer(Recovery.in_memory(log, _QUICK), exchange.limits, "desk")
        self.read: list[bytes] = []

    async def run(self) -> None:
        places = dict.fromkeys(range(self.exchange.partitions), 0)
        while True:
            for partition, start in places.items():
                records, places[partition] = self.exchange.read("recover", partition, start)
                for record in records:
                    request = decode_request(record.value)
                    self.read.append(request.id)
                    answer = await self.answering.answer(request)
                    other = encode_answer(replace(answer, id=bytes(16), state=None, hash="other"))
                    for value in (b"junk", other, *[encode_answer(answer)] * self.copies):
                        self.exchange.send("recovered", partition, record.key or b"", value)
            await asyncio.sleep(0.005)


@pytest.fixture
async def log() -> MemoryLog:
    log = MemoryLog(partitions=8)
    async with Node.in_memory(log) as node, node.open("case-17") as process:
        await process.update("a", 1)
    return log


@asynccontextmanager
async def asking(log: MemoryLog, copies: int = 1) -> AsyncIterator[tuple[Requests, Desk]]:
    exchange = MemoryExchange()
    desk = Desk(exchange, log, copies)
    task = asyncio.create_task(desk.run())
    with ThreadPoolExecutor(4) as executor:
        yield Requests(exchange, executor, resend_s=0.1), desk
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_caller_gets_one_answer(log: MemoryLog) -> None:
    """Though each request is answered three times, among junk and answers to others."""
    async with asking(log, copies=3) as (requests, desk):
        first = await requests.recover("case-17")
        second = await requests.recover("case-17", at_seq=1)
    assert first.state is not None
    assert first.state.context == {"a": 1}
    assert first.answered_by == "desk"
    assert second.state is not None
    assert second.state.seq == 1
    assert len(set(desk.read)) == 2


@pytest.mark.parametrize("kind", ["recover", "recovered"])
async def test_what_is_lost_is_sent_again_with_the_same_id(log: MemoryLog, kind: str) -> None:
    """A request, or its answer."""
    async with asking(log) as (requests, desk):
        desk.exchange.lose(kind, 3)  # type: ignore[arg-type]  # "recovered": junk, a stranger's, and ours
        found = await requests.recover("case-17")
    assert found.hash
    assert len(set(desk.read)) == 1
    assert kind == "recover" or len(desk.read) > 1


async def test_an_error_comes_typed(log: MemoryLog) -> None:
    """As it was raised where the recovery ran."""
    async with asking(log) as (requests, _):
        with pytest.raises(UnknownProcess):
            await requests.recover("case-18")
        with pytest.raises(UnknownPoint):
            await requests.recover("case-17", at_seq=50)


async def test_a_state_that_must_be_current_is_refused_where_the_end_is_hidden(log: MemoryLog) -> None:
    """Otherwise the report that comes with the state says how much of the partition is hidden."""
    log.hide(partition_of(b"case-17", log.partitions))
    async with Node.in_memory(log, transaction_wait_s=0.05) as node:
        await node.signal("case-17", "hidden")
        async with asking(log) as (requests, _):
            assert (await requests.recover("case-17")).report["hidden"] == 1
            with pytest.raises(TransactionOpen):
                await requests.recover("case-17", must_be_current=True)


async def test_nobody_answers(log: MemoryLog) -> None:
    """``RequestTimeout`` says which process, and what to start."""
    with ThreadPoolExecutor(1) as executor:
        requests = Requests(MemoryExchange(), executor)
        with pytest.raises(RequestTimeout, match="serve recovery") as caught:
            await requests.recover("case-17", timeout_s=0.05)
    assert caught.value.process_id == "case-17"


async def test_what_cannot_be_asked_is_refused_at_once(log: MemoryLog) -> None:
    """A name that is none, a point that is none; and a log in memory has nobody else."""
    with ThreadPoolExecutor(1) as executor:
        requests = Requests(MemoryExchange(), executor)
        with pytest.raises(InvalidName):
            await requests.recover("")
        with pytest.raises(UnknownPoint):
            await requests.recover("case-17", at_seq=0)
    async with Node.in_memory(log) as node:
        with pytest.raises(Refused):
            await node.request_recovery("case-17")
