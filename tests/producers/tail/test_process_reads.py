"""Reads of processes that do not exist, by a node and by a client. On a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing
from typing import cast

import pytest

from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.producers import Client, Node
from seekpoint.producers.client_runtime import ClientRuntime
from seekpoint.producers.tail.process_reads import ProcessReads
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import UnknownProcess
from seekpoint.schemas.log.log_ports import Batch


class CountedLog(MemoryLog):
    """A log of one partition that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.reads = 0

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        self.reads += 1
        return super().read(partition, start, stop, keys)


@pytest.fixture
def log() -> CountedLog:
    return CountedLog()


def reads_of(client: Client) -> ProcessReads:
    runtime = client._runtime
    assert isinstance(runtime, ClientRuntime)
    return runtime.reads


async def proven(reads: ProcessReads, process_id: str = "nobody") -> None:
    """Read an unknown process, and return once the next read of it needs no read of the log."""
    await reads.recover(process_id, missing_ok=True)
    async with asyncio.timeout(10):
        while await reads._absence(process_id) is None:  # noqa: ASYNC110  # a thread reads
            await asyncio.sleep(0.005)


async def begin(log: MemoryLog, *ids: str) -> None:
    """Write a first entry of these processes."""
    async with Node.in_memory(log) as node:
        for process_id in ids:
            async with node.open(process_id) as process:
                await process.update("n", 1)


async def test_unknown_processes_are_read_once(log: CountedLog) -> None:
    """The first read proves for all others of the partition that they do not exist."""
    await begin(log, "known")
    async with Client.in_memory(log) as client:
        await proven(reads_of(client))
        log.reads = 0
        for number in range(20):
            found = await client.recover(f"none-{number}", missing_ok=True)
            assert (found.known, found.state.seq, found.report.log_end) == (False, 0, log.watermarks(0).high)
            assert (await client.status(f"none-{number}")).stage == "unknown"
            with pytest.raises(UnknownProcess):
                await client.state(f"none-{number}")
        assert log.reads == 0
        assert (await client.state("known")).context == {"n": 1}
        assert log.reads > 0


async def test_a_node_reads_entries_and_states_of_unknown_processes_once(log: CountedLog) -> None:
    """Entries that are followed are another matter: they may still come."""
    await begin(log, "known")
    async with Node.in_memory(log) as node:
        await proven(node._runtime.reads)
        log.reads = 0
        for _ in range(5):
            with pytest.raises(UnknownProcess):
                [one async for one in node.entries("none")]
            with pytest.raises(UnknownProcess):
                await node.recover("none")
            assert not (await node.recover("none", missing_ok=True, must_be_current=True)).known
        assert log.reads == 0
        assert [one.entry.kind async for one in node.entries("known", kinds=["context_updated"])] == ["context_updated"]
        async with aclosing(cast(AsyncGenerator[Logged, None], node.entries("late", follow=True))) as followed:
            first = asyncio.ensure_future(anext(followed))
            await begin(log, "late")
            assert (await asyncio.wait_for(first, 10)).entry.process_id == "late"


async def test_a_process_is_found_as_soon_as_its_first_entry_is_acknowledged(log: CountedLog) -> None:
    """However lately the tail has read the log: the answer is never older than the call."""
    async with Client.in_memory(log) as client:
        await proven(reads_of(client))
        for number in range(30):
            assert not (await client.recover(f"new-{number}", missing_ok=True)).known
            await begin(log, f"new-{number}")
            assert (await client.recover(f"new-{number}")).state.context == {"n": 1}


async def test_what_an_open_transaction_hides_is_reported_for_an_unknown_process(log: CountedLog) -> None:
    """Its entries may be among those."""
    async with Client.in_memory(log, transaction_wait_s=0.01) as client:
        await begin(log, "known")
        await proven(reads_of(client))
        log.hide(0)
        await begin_hidden(log)
        assert (await client.recover("nobody", missing_ok=True)).report.hidden == 1
        log.reveal(0)
        assert (await client.recover("nobody", missing_ok=True)).report.hidden == 0


async def begin_hidden(log: MemoryLog) -> None:
    async with Client.in_memory(log) as client:
        await client.signal("somebody", "hello")


async def test_a_log_that_ends_earlier_than_it_was_read_proves_nothing(log: CountedLog) -> None:
    """It was truncated or made again; then the read of the log tells."""
    await begin(log, "known")
    async with Client.in_memory(log) as client:
        reads = reads_of(client)
        await proven(reads)
        low, high, end = log.extent(0)
        log.extent = lambda partition: type(log).extent(log, partition)._replace(high=high - 1, end=end - 1)  # type: ignore[method-assign]
        assert low == 0
        assert await reads._absence("nobody") is None


async def test_a_tail_that_does_not_answer_in_time_is_not_waited_for(
    log: CountedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read instead."""

    async def silent(*arguments: object) -> None:
        await asyncio.Event().wait()

    async with Client.in_memory(log, confirm_timeout_s=0.05) as client:
        await proven(reads_of(client))
        monkeypatch.setattr(client._runtime.tailer, "wait_for", silent)
        log.reads = 0
        assert not (await client.recover("nobody", missing_ok=True)).known
        assert log.reads > 0


async def test_a_client_that_was_not_started_reads_the_log(log: CountedLog) -> None:
    """It follows nothing."""
    await begin(log, "known")
    client = Client.in_memory(log)
    for _ in range(2):
        log.reads = 0
        assert not (await client.recover("nobody", missing_ok=True)).known
        assert log.reads > 0
    await client.close()
