"""Owners learn of a log that has lost its end, whether they had read what was lost or only its acknowledgements."""

from __future__ import annotations

import asyncio

import pytest

from idle_tailers import until, until_idle
from seekpoint.consumers import Recovery
from seekpoint.producers import Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.writer import confirmer
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import LogTruncated
from seekpoint.schemas.log.memory_log import MemoryTail


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def read_tail(node: Node, process: Process) -> PartitionTail:
    """Write an entry. Return the tail once it has read all that it took from acknowledgements, and its thread rests."""
    await process.update("a", 1)
    await process.confirm()
    tail = runtime_of(node).tailer.tail(0)
    assert tail is not None
    await until_idle(node)
    await until(lambda: tail.taken is None, "it is not read")
    return tail


async def test_a_log_that_was_truncated_under_the_tailer_stops_its_owners(log: MemoryLog) -> None:
    """An unclean leader lost confirmed entries and took others: whoever relied on them hears of it."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        await process.update("a", 1)
        await process.confirm()
        log.elect(0, 1)
        log.append(0, b"other", b"1")
        log.append(0, b"other", b"2")
        with pytest.raises(LogTruncated):
            for number in range(1_000):
                await process.update("b", number)
                await process.confirm()
                await asyncio.sleep(0.01)
        durable_side(process).abandon()


@pytest.mark.parametrize(("grown", "waits"), [(0, True), (1, True), (1, False)])
async def test_a_log_that_loses_acknowledged_records_stops_its_owners(log: MemoryLog, grown: int, waits: bool) -> None:
    """An acknowledgement does not tell of a lost end: others may have filled it up to where the next record belongs."""
    settings = Settings(redis_url=None, confirm_interval_s=1.0)
    async with Node(log, log, settings, recovery=Recovery.in_memory(log)) as node:
        process = await node.open("p")
        await process.update("a", 1)
        await process.confirm()
        await until_idle(node)
        log.elect(0, 1)
        for _ in range(grown):
            log.append(0, b"other", b"1")
        if waits:
            await asyncio.sleep(2.5)
        with pytest.raises(LogTruncated):
            for number in range(500):
                await process.update("b", number)
                await asyncio.sleep(0.01)
        durable_side(process).abandon()


async def test_a_new_leader_is_asked_for_what_was_only_acknowledged(log: MemoryLog) -> None:
    """It has the last record that was read, and not those that the owner took from their acknowledgements since."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        tail = await read_tail(node, process)
        lost_from = tail.position
        await process.update("a", 2)
        await process.update("a", 3)
        assert tail.taken is not None
        log.elect(0, lost_from)
        for _ in range(3):
            log.append(0, b"other", b"1")
        with pytest.raises(LogTruncated):
            await process.update("a", 4)
            await process.confirm()
            await asyncio.sleep(1)
            await process.update("a", 5)
        durable_side(process).abandon()


async def test_a_new_leader_is_asked_after_a_direct_read_too(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread may read nothing from then on, as the node writes alone."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        tail = await read_tail(node, process)
        await process.update("a", 2)
        log.elect(0, tail.position - 1)
        log.append(0, b"other", b"1")
        log.append(0, b"other", b"2")
        monkeypatch.setattr(MemoryTail, "_read_new", lambda tail: [])
        await runtime_of(node).tailer.wait_for(tail, tail.position + 1)
        await until(lambda: isinstance(tail.error, LogTruncated), "nobody asks")
        with pytest.raises(LogTruncated):
            await process.update("a", 3)
        durable_side(process).abandon()


async def test_an_entry_below_what_was_read_is_not_confirmed(log: MemoryLog) -> None:
    """It is where a record was that its owner has read: the log lost its end, and nothing may rely on the entry."""
    settings = Settings(redis_url=None, confirm_interval_s=3600.0)
    async with Node(log, log, settings, recovery=Recovery.in_memory(log)) as node:
        process = await node.open("p")
        for number in range(3):
            await process.update("a", number)
        await process.confirm()
        log.elect(0, 2)
        await process.update("a", 3)
        with pytest.raises(LogTruncated):
            await process.confirm()
        durable_side(process).abandon()


@pytest.mark.parametrize("shared", [False, True])
async def test_an_open_ends_though_the_log_ends_below_what_was_read(log: MemoryLog, *, shared: bool) -> None:
    """A new tail follows what is there. The owners that relied on the former one hear of it."""
    settings = Settings(redis_url=None, confirm_interval_s=3600.0)  # nothing else finds out
    async with Node(log, log, settings, recovery=Recovery.in_memory(log)) as node:
        process = await node.open("p")
        for number in range(3):
            await process.update("a", number)
        await process.confirm()
        tail = runtime_of(node).tailer.tail(0)
        assert tail is not None
        tail.absence.forget()
        await until_idle(node)
        log.elect(0, 2)
        async with asyncio.timeout(30):
            if shared:
                assert (await (await node.open("q", shared=True)).update("a", 1)).seq == 1
            else:
                await (await node.open("q")).release()
        with pytest.raises(LogTruncated):
            await process.update("a", 3)
        durable_side(process).abandon()


async def test_a_read_returns_nothing_that_the_log_has_lost(log: MemoryLog) -> None:
    """It looks where the log ends. An owner that looks for new mail hears of it, too."""
    async with Node.in_memory(log) as node:
        shared, process = await node.open("page", shared=True), await node.open("p")
        await shared.update("a", 1)
        kept = log.watermarks(0).high
        await shared.update("a", 2)
        await process.update("a", 1)
        await process.confirm()
        log.elect(0, kept)
        assert (await shared.read()).context == {"a": 1}
        with pytest.raises(LogTruncated):
            await process.update("a", 2)
        durable_side(process).abandon()


async def test_an_idle_owner_learns_that_the_log_has_lost_its_end(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle partition is looked at now and then, though nobody writes."""
    monkeypatch.setattr(confirmer, "_IDLE_READ_S", 0.0)
    settings = Settings(redis_url=None, confirm_interval_s=0.1)
    async with Node(log, log, settings, recovery=Recovery.in_memory(log)) as node:
        process = await node.open("p")
        await read_tail(node, process)
        handle = runtime_of(node).handles["p"]
        assert handle is not None
        log.elect(0, 1)
        await until(lambda: not handle.is_open, "it does not learn of it")
        assert isinstance(handle.error, LogTruncated)
        durable_side(process).abandon()


async def test_acknowledged_records_that_were_read_are_not_read_again(log: MemoryLog) -> None:
    """Nor does the check mind that the log was trimmed: what was trimmed is in a checkpoint."""
    settings = Settings(redis_url=None, confirm_interval_s=0.1)
    async with Node(log, log, settings, recovery=Recovery.in_memory(log)) as node, node.open("p") as process:
        tail = await read_tail(node, process)
        await process.update("a", 2)
        assert tail.taken is not None
        log.trim(0, log.watermarks(0).high)
        await until(lambda: tail.taken is None, "it is not read")
        await process.update("a", 3)
        await process.confirm()


async def test_an_owner_that_only_waits_learns_that_the_log_was_truncated(log: MemoryLog) -> None:
    """It ends below what was read already."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        await process.update("a", 1)
        await process.confirm()
        waiting = asyncio.create_task(process.gate("go"))
        await asyncio.sleep(0.3)
        log.elect(0, 1)
        with pytest.raises(LogTruncated):
            await asyncio.wait_for(waiting, 10)
        durable_side(process).abandon()
