"""Reading records: what a read costs, and what it does where the log was trimmed or truncated. On a log in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.producers import Node, ProcessRecord, SyncNode
from seekpoint.producers.history import process_records, record_reads
from seekpoint.producers.node import runtime_of
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import JournalGap, LogTruncated, Refused, TransactionOpen, UnknownPoint
from seekpoint.schemas.log.log_ports import Batch


class CountedLog(MemoryLog):
    """A log of one partition that notes from where to where it is read."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.asked: list[tuple[int, int]] = []

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        if keys is not None and start < stop:
            self.asked.append((start, stop))
        return super().read(partition, start, stop, keys)


@pytest.fixture
def log() -> CountedLog:
    return CountedLog()


async def records(node: Node, process_id: str = "a", **how: Any) -> list[ProcessRecord]:
    return [one async for one in node.records(process_id, **{"kinds": ["turn"], **how})]


async def values(node: Node, process_id: str = "a", **how: Any) -> list[Any]:
    return [one.payload for one in await records(node, process_id, **how)]


async def write(log: MemoryLog, *payloads: Any, process_id: str = "a") -> None:
    async with Node.in_memory(log) as node, node.open(process_id) as process:
        for payload in payloads:
            await process.record("turn", payload)


async def test_a_read_begins_at_the_first_entry_of_the_process(log: CountedLog) -> None:
    """Not at the beginning of the partition."""
    await write(log, *range(20), process_id="other")
    await write(log, 1, 2)
    async with Node.in_memory(log) as node:
        await values(node)
        assert min(start for start, _ in log.asked[-1:]) == 22  # behind the other's claim, records and release


async def test_a_read_that_goes_on_reads_only_what_is_new(log: CountedLog) -> None:
    """Behind its last record, also if others wrote more meanwhile; with another selection it begins anew."""
    await write(log, 1, 2)
    async with Node.in_memory(log) as node:
        cursor = (await records(node))[-1].cursor
        await write(log, *range(9), process_id="other")
        end, log.asked = log.watermarks(0).high, []
        assert await values(node, after=cursor) == []
        assert log.asked == [(4, end)]
        await write(log, 3)
        log.asked = []
        assert await values(node, after=cursor) == [3]
        assert log.asked == [(end, end + 3)]
        log.asked = []
        assert await values(node, after=cursor, kinds=["claim"]) == [None]
        assert 0 in [start for start, _ in log.asked]


async def test_pages_read_each_entry_once(log: CountedLog) -> None:
    """A page ends where its last record is, and the next one goes on there."""
    await write(log, *range(5))
    async with Node.in_memory(log) as node:
        first = await records(node, limit=2)
        log.asked = []
        second = await records(node, limit=2, after=first[-1].cursor)
        third = await records(node, limit=2, after=second[-1].cursor)
        assert [one.payload for one in (*first, *second, *third)] == [*range(5)]
        assert [start for start, _ in log.asked] == [first[-1].offset + 1, second[-1].offset + 1]


async def test_a_node_remembers_the_newest_ends_of_reads(log: CountedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a number, and to a width of their states; the others are read from the first entry again."""
    monkeypatch.setattr(record_reads, "KEPT_MAX", 2)
    for name in "abc":
        await write(log, 1, process_id=name)
    async with Node.in_memory(log) as node:
        cursors = {name: (await records(node, name))[-1].cursor for name in "abc"}
        reads = node._record_reads
        assert reads is not None
        assert [place.process_id for place, _, _ in reads._ends] == ["b", "c"]
        for name in "abc":
            assert await values(node, name, after=cursors[name]) == []
        await write(log, "x" * 500, process_id="big")
        async with node.open("b") as process:
            await process.update("wide", "x" * 500)
        await values(node, "b")
        assert reads._ends_bytes == sum(record_reads._width(end) for end in reads._ends.values()) > 500
        monkeypatch.setattr(record_reads, "KEPT_BYTES_MAX", 100)
        await values(node, "c")
        assert reads._ends_bytes <= 100


async def test_an_unknown_process_costs_no_read_once_that_is_proven(log: CountedLog) -> None:
    """As with ``recover``."""
    await write(log, 1)
    async with Node.in_memory(log) as node:
        await values(node, "nobody")
        tail = runtime_of(node).tailer.tail(0)
        assert tail is not None
        for _ in range(1_000):
            if tail.absence.report(b"nobody", tail.position) is not None:
                break
            await node.recover("nobody", missing_ok=True)
        log.asked = []
        assert await values(node, "nobody-2") == []
        assert log.asked == []


async def test_a_process_that_this_node_writes_to_is_not_recovered(log: CountedLog) -> None:
    """Its state is known: one read of its entries is enough."""
    async with Node.in_memory(log) as node:
        thread = await node.open("a", shared=True)
        await thread.record("turn", 1)
        log.asked = []
        assert await values(node) == [1]
        assert len(log.asked) == 1


async def test_a_trimmed_history_is_read_from_a_place_that_a_checkpoint_knows(log: CountedLog) -> None:
    """The state at the place tells which entries count. From the beginning, and from an earlier place, it raises."""
    await write(log, 1, 2, 3, 4)
    state = (await Recovery.in_memory(log).recover("a", at_seq=2)).state
    checkpoints = MemoryCheckpoints(partitions=1)
    checkpoint = Checkpoint.of("a", 0, state, log.topic_id, 0).to_bytes()
    floor = Floor(offset=3, leader_epoch=0, topic_id=log.topic_id, since=0).to_bytes()
    checkpoints.write(0, [(b"a", checkpoint), (FLOOR_KEY, floor)])
    log.trim(0, 3)
    settings = Settings(redis_url=None)
    async with Node(log, log, settings, Recovery.in_memory(log, checkpoints=checkpoints)) as node:
        for place in ({"after_offset": 2}, {"after": "2@a"}):
            assert await values(node, **place) == [3, 4]
        assert await values(node, after_seq=3) == [4]
        for early in ({}, {"after_seq": 0}, {"after_offset": 1}, {"after": "1@a"}):
            with pytest.raises((JournalGap, UnknownPoint)):
                await values(node, **early)


async def test_a_truncated_log_is_noticed(log: CountedLog) -> None:
    """Also if it is as long as before again. The next read begins anew."""
    await write(log, 1, 2)
    await write(log, *range(4), process_id="other")
    async with Node.in_memory(log) as node:
        end = (await records(node))[-1].cursor
        assert await values(node, after=end) == []
        log.elect(0, log.watermarks(0).high - 1)
        with pytest.raises(LogTruncated):
            await values(node, after=end)
        for _ in range(2):  # the second one reads to the end of the log
            assert await values(node, after=end) == []
        log.elect(0, log.watermarks(0).high - 1)
        await write(log, *range(9), process_id="other")
        with pytest.raises(LogTruncated):
            await values(node, after=end)
        await write(log, 3)
        assert await values(node, after=end) == [3]


async def test_a_page_of_two_leaders_is_not_gone_on_with(log: CountedLog) -> None:
    """Which of them wrote its last record is not known: the next page is read from the first entry."""
    await write(log, 1)
    log.elect(0)
    await write(log, 2, 3)
    async with Node.in_memory(log) as node:
        cursor = (await records(node, limit=2))[-1].cursor
        log.asked = []
        assert await values(node, after=cursor) == [3]
        assert (0, log.watermarks(0).high) in log.asked


async def test_what_a_transaction_hides_is_no_end(log: CountedLog) -> None:
    """The entries may be among what it hides: cold and warm, the read raises."""
    await write(log, 1)
    async with Node.in_memory(log, transaction_wait_s=0.01) as node:
        cursor = (await records(node))[-1].cursor
        log.hide(0)
        log.append(0, b"x", b"")
        for how in ({"after": cursor}, {}):
            with pytest.raises(TransactionOpen):
                await values(node, **how)
        log.reveal(0)
        assert await values(node) == [1]


async def test_a_parent_that_the_journal_does_not_have_is_no_silence(log: CountedLog) -> None:
    """The records of the fork alone can be had."""
    await write(log, 1, 2, process_id="parent")
    async with Node.in_memory(log) as node:
        async with node.fork("parent", "a") as process:
            await process.record("turn", 3)
        kept = [one async for one in node.entries("a")]
    other = CountedLog()
    raw = [record for batch in log.read(0, 0, log.watermarks(0).high, {b"a"}) for record in batch.records]
    for record in raw:
        other.append(0, record.key, record.value)
    assert len(kept) == len(raw)
    async with Node.in_memory(other) as node:
        with pytest.raises(JournalGap, match="there is no process parent"):
            await values(node)
        assert await values(node, through_forks=False) == [3]


async def test_what_was_deleted_is_not_found_again(log: CountedLog) -> None:
    """Neither from the beginning, nor where a read goes on that ended before, nor by a fork of the old process."""
    async with Node.in_memory(log) as writer, Node.in_memory(log) as node:
        thread = await writer.open("a", shared=True)
        for number in range(4):
            await thread.record("turn", number)
        async with writer.fork("a", "fork", at_seq=2):
            pass
        page = await records(node, limit=2)
        end = (await records(node))[-1].cursor
        await thread.record("turn", "last")
        await writer.delete("a")
        for reader in (node, writer):
            for how in ({}, {"after": page[-1].cursor, "limit": 2}, {"after": end}, {"after_seq": 1}):
                assert await values(reader, **how) == []
        await thread.record("turn", "new")
        for reader in (node, writer):
            for how in ({}, {"after": page[-1].cursor, "limit": 2}, {"after": end}, {"after_seq": 1}):
                assert await values(reader, **how) == ["new"]
            assert [one.kind async for one in reader.records("a")] == ["turn"]
            with pytest.raises(JournalGap, match="deleted"):
                await values(reader, "fork")


async def test_much_that_is_new_is_not_kept_in_memory(log: CountedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once for a deletion, and a second time as far as it is wanted."""
    monkeypatch.setattr(process_records, "_KEPT_BYTES_MAX", 500)
    await write(log, 0)
    async with Node.in_memory(log) as node:
        cursor = (await records(node))[-1].cursor
        known = log.watermarks(0).high
        await write(log, *range(1, 30))
        log.asked = []
        page = await records(node, after=cursor, limit=2)
        assert [one.payload for one in page] == [1, 2]
        assert [start for start, _ in log.asked].count(known) == 2
        assert await values(node, after=page[-1].cursor) == [*range(3, 30)]


async def test_a_deletion_is_noticed_behind_a_page(log: CountedLog) -> None:
    """Though the page could be filled with entries from before."""
    async with Node.in_memory(log) as writer, Node.in_memory(log) as node:
        thread = await writer.open("a", shared=True)
        for number in range(6):
            await thread.record("turn", number)
        first = await records(node, limit=2)
        second = await records(node, limit=2, after=first[-1].cursor)
        assert [one.payload for one in second] == [2, 3]
        await writer.delete("a")
        await thread.record("turn", "new")
        assert await values(node, limit=2, after=second[-1].cursor) == ["new"]


@pytest.mark.parametrize(
    "how",
    [
        {"after": "nonsense"}, {"after": "4@"}, {"after": "-1@a"}, {"after": "1@other"}, {"after_offset": -2},
        {"after_seq": -1}, {"after_seq": 1, "after_offset": 1}, {"limit": 0}, {"kinds": "turn"},
    ],
)  # fmt: skip
async def test_a_call_that_makes_no_sense_is_refused(log: CountedLog, how: dict[str, Any]) -> None:
    """With an error that says what to pass."""
    await write(log, 1)
    async with Node.in_memory(log) as node:
        with pytest.raises(Refused):
            await values(node, **how)


def test_a_synchronous_node_reads_records(log: CountedLog) -> None:
    """In a for loop, which may be left early."""
    with SyncNode.in_memory(log) as node:
        with node.open("a") as process:
            for number in range(3):
                process.record("turn", number)
        assert [one.payload for one in node.records("a", kinds=["turn"])] == [0, 1, 2]
        first = next(iter(node.records("a", kinds=["turn"])))
        assert [one.payload for one in node.records("a", kinds=["turn"], after=first.cursor)] == [1, 2]
