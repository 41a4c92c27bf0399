"""What every ``LogReader`` promises, as one suite: a test of an implementation inherits it and brings a ``bench``."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from typing import Protocol

import pytest

from seekpoint.schemas.errors import JournalGap, LogTruncated
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.tail import Tail, TailBatch

__all__ = ["Bench", "ReaderContract", "read_all"]


class Bench(Protocol):
    """A log on the bench: read through the port, written and trimmed behind its back."""

    reader: LogReader

    def write(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> list[int]:
        """Append (key, value, timestamp_ms) records; their offsets."""

    def trim(self, partition: int, offset: int) -> None:
        """Delete the records below ``offset``."""

    def other(self) -> LogReader:
        """Another reader of the same log."""


def read_all(
    reader: LogReader, partition: int, start: int = 0, stop: int | None = None, keys: set[bytes] | None = None
) -> list[Record]:
    """All records of a read."""
    end = reader.watermarks(partition).high if stop is None else stop
    return [record for batch in reader.read(partition, start, end, keys) for record in batch.records]


def polled(tail: Tail, ends: dict[int, int], broken: Collection[int] = ()) -> list[TailBatch]:
    """What a tail brings until each partition has come to its end, or is broken."""
    found: list[TailBatch] = []
    at, waiting, deadline = dict.fromkeys(ends, -1), set(broken), time.monotonic() + 60
    while waiting or any(at[partition] < end for partition, end in ends.items()):
        assert time.monotonic() < deadline, f"the tail stands at {at}, broken are not {waiting}"
        for stretch in tail.poll(0.05):
            found.append(stretch)
            at[stretch.partition] = stretch.next_offset
            waiting -= {stretch.partition} if stretch.broken else set()
    return found


def followed(tail: Tail, ends: dict[int, int]) -> dict[int, list[bytes | None]]:
    """The values by partition."""
    values: dict[int, list[bytes | None]] = {}
    for stretch in polled(tail, ends):
        assert not stretch.broken
        values.setdefault(stretch.partition, []).extend(
            stretch.record(index).value for index in range(len(stretch.keys))
        )
    return values


def _three(bench: Bench) -> None:
    bench.write(1, [(b"a", b"1", 1_000), (b"b", b"22", 2_000), (b"a", b"333", 3_000)])


class ReaderContract:
    """The promises."""

    passes_over_others = True
    """Whether a read by key has to pass over the records of other keys."""

    def test_a_record_comes_back_as_it_was_written(self, bench: Bench) -> None:
        """Partition, offset, timestamp, key and value."""
        _three(bench)
        assert read_all(bench.reader, 1) == [
            Record(1, 0, 1_000, b"a", b"1"),
            Record(1, 1, 2_000, b"b", b"22"),
            Record(1, 2, 3_000, b"a", b"333"),
        ]

    def test_a_record_without_key_or_value_comes_back(self, bench: Bench) -> None:
        """Poison has to be seen to become a dead letter; a read by key does not see what has none."""
        bench.write(1, [(None, b"1", 1_000), (b"a", None, 1_000), (None, None, 1_000)])
        assert [(record.key, record.value) for record in read_all(bench.reader, 1)] == [
            (None, b"1"),
            (b"a", None),
            (None, None),
        ]
        assert [record.key for record in read_all(bench.reader, 1, keys={b"a"})] == [b"a"]

    def test_a_read_by_key_gives_those_and_counts_the_others(self, bench: Bench) -> None:
        """``scanned`` and ``bytes`` are of everything that was read, also what was passed over."""
        _three(bench)
        batches = list(bench.reader.read(1, 0, 3, {b"b"}))
        assert [record.offset for batch in batches for record in batch.records] == [1]
        assert sum(batch.scanned for batch in batches) == (3 if self.passes_over_others else 1)
        assert sum(batch.bytes for batch in batches) == (9 if self.passes_over_others else 3)

    def test_a_read_starts_at_start_and_ends_before_stop(self, bench: Bench) -> None:
        """[start, stop), and the last batch says that everything below stop was read."""
        _three(bench)
        assert [record.offset for record in read_all(bench.reader, 1, 1, 2)] == [1]
        assert list(bench.reader.read(1, 1, 2))[-1].next_offset == 2
        assert list(bench.reader.read(1, 2, 2)) == []
        assert list(bench.reader.read(1, 3, 3)) == []

    def test_other_partitions_are_not_read(self, bench: Bench) -> None:
        """A partition is an order of its own."""
        _three(bench)
        bench.write(2, [(b"c", b"1", 1_000)])
        assert [record.key for record in read_all(bench.reader, 2)] == [b"c"]
        assert read_all(bench.reader, 0) == []

    def test_many_records_come_in_order_and_batches_join(self, bench: Bench) -> None:
        """Each batch starts where the one before it ended."""
        bench.write(0, [(b"k%d" % (number % 3), b"%d" % number, number) for number in range(1_700)])
        position, seen = 0, []
        for batch in bench.reader.read(0, 0, 1_700):
            assert all(position <= record.offset < batch.next_offset for record in batch.records)
            assert batch.scanned == len(batch.records)
            position = batch.next_offset
            seen += [record.value for record in batch.records]
        assert seen == [b"%d" % number for number in range(1_700)]
        assert position == 1_700

    def test_watermarks_say_where_a_partition_begins_and_ends(self, bench: Bench) -> None:
        """Empty, written, trimmed."""
        assert bench.reader.watermarks(1) == (0, 0)
        _three(bench)
        assert bench.reader.watermarks(1) == (0, 3)
        assert (bench.reader.extent(1), bench.reader.extent(1).hidden) == ((0, 3, 3), 0)
        bench.trim(1, 2)
        assert bench.reader.watermarks(1) == (2, 3)

    def test_history_that_was_trimmed_is_a_gap_with_its_facts(self, bench: Bench) -> None:
        """Never a silent jump to what is left; what is left can be read."""
        _three(bench)
        bench.trim(1, 2)
        with pytest.raises(JournalGap) as caught:
            read_all(bench.reader, 1, 0)
        assert (caught.value.low, caught.value.high) == (2, 3)
        assert [record.offset for record in read_all(bench.reader, 1, 2)] == [2]

    @pytest.mark.parametrize(("start", "stop"), [(0, 5), (4, 6)], ids=["stop", "start"])
    def test_an_offset_beyond_the_end_is_a_truncated_log(self, bench: Bench, start: int, stop: int) -> None:
        """Whoever asks for an offset was told of it: it has to be there."""
        _three(bench)
        with pytest.raises(LogTruncated) as caught:
            read_all(bench.reader, 1, start, stop)
        assert caught.value.high == 3

    @pytest.mark.parametrize(
        ("timestamp_ms", "offset"), [(0, 0), (1_000, 0), (1_001, 1), (2_500, 2), (3_000, 2), (3_001, 3)]
    )
    def test_a_time_is_the_first_offset_that_is_not_older(self, bench: Bench, timestamp_ms: int, offset: int) -> None:
        """And the end, if there is none."""
        _three(bench)
        assert bench.reader.offset_at(1, timestamp_ms) == offset

    def test_times_out_of_order_mean_the_first_in_the_log(self, bench: Bench) -> None:
        """Writers' clocks differ; the order of the log decides."""
        bench.write(1, [(b"a", b"1", 5_000), (b"a", b"2", 1_000), (b"a", b"3", 7_000)])
        assert bench.reader.offset_at(1, 1_000) == 0
        assert bench.reader.offset_at(1, 6_000) == 2

    def test_an_abandoned_read_does_not_affect_other_reads(self, bench: Bench) -> None:
        """What it left behind is not in the next one."""
        bench.write(0, [(b"x", b"%d" % number, 0) for number in range(1_200)])
        _three(bench)
        for _ in range(5):
            next(iter(bench.reader.read(0, 0, 1_200)))
            assert [record.partition for record in read_all(bench.reader, 1)] == [1, 1, 1]

    def test_many_threads_may_read_at_once(self, bench: Bench) -> None:
        """Each sees its own."""
        for partition in range(3):
            bench.write(partition, [(b"x", b"%d" % (partition * 1_000 + n), 0) for n in range(600)])
        seen: dict[int, list[bytes | None]] = {}

        def read(index: int) -> None:
            seen[index] = [record.value for record in read_all(bench.reader, index % 3)]

        threads = [threading.Thread(target=read, args=(index,)) for index in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert seen == {index: [b"%d" % (index % 3 * 1_000 + n) for n in range(600)] for index in range(9)}

    def test_a_table_keeps_the_newest_value_of_each_key(self, bench: Bench) -> None:
        """None deletes; other readers see the same."""
        table = bench.reader.table("nodes")
        assert table.items() == {}
        table.put(b"a", b"1")
        table.put(b"b", b"1")
        assert bench.other().table("nodes").items() == {b"a": b"1", b"b": b"1"}
        table.put(b"a", b"2")
        table.put(b"b", None)
        assert table.items() == {b"a": b"2"}
        assert bench.other().table("nodes").items() == {b"a": b"2"}

    def test_a_table_is_streamed_as_it_is_now(self, bench: Bench) -> None:
        """Each key once, with its newest value, in the order of these; what was deleted is not there."""
        table = bench.reader.table("deadletters")
        assert [*table.stream()] == []
        for key, value in ((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"c", None)):
            table.put(key, value)
        assert [*table.stream()] == [(b"b", b"1"), (b"a", b"2")]
        assert [*bench.other().table("deadletters").stream()] == [(b"b", b"1"), (b"a", b"2")]
        assert dict(table.stream()) == table.items()
        assert next(table.stream()) == (b"b", b"1")

    def test_tables_are_apart(self, bench: Bench) -> None:
        """One topic each."""
        bench.reader.table("nodes").put(b"a", b"1")
        assert bench.reader.table("deadletters").items() == {}

    def test_a_tail_brings_what_is_there_and_what_comes(self, bench: Bench) -> None:
        """In order, by partition, from where it was begun; records are made when they are looked at."""
        _three(bench)
        tail = bench.reader.tail()
        try:
            tail.begin(1, 1)
            assert followed(tail, {1: 3}) == {1: [b"22", b"333"]}
            tail.begin(2, 0)
            bench.write(2, [(b"c", b"4", 1_000), (None, b"5", 1_000)])
            bench.write(1, [(b"a", None, 1_000)])
            assert followed(tail, {1: 4, 2: 2}) == {1: [None], 2: [b"4", b"5"]}
        finally:
            tail.close()

    def test_a_tail_that_was_ended_goes_on_where_it_is_begun_again(self, bench: Bench) -> None:
        """Nothing twice, nothing missed, and nothing of it in between."""
        bench.write(0, [(b"x", b"%d" % number, 0) for number in range(10)])
        tail = bench.reader.tail()
        try:
            tail.begin(0, 0)
            assert len(followed(tail, {0: 10})[0]) == 10
            tail.end(0)
            bench.write(0, [(b"x", b"%d" % number, 0) for number in range(10, 1_700)])
            bench.write(1, [(b"y", b"1", 0)])
            tail.begin(1, 0)
            assert followed(tail, {1: 1}) == {1: [b"1"]}
            tail.begin(0, 10)
            assert followed(tail, {0: 1_700})[0] == [b"%d" % number for number in range(10, 1_700)]
        finally:
            tail.close()

    def test_a_tail_says_what_leads_and_what_it_cannot_follow(self, bench: Bench) -> None:
        """The first and the last record of a stretch as landmarks; an offset that is not there breaks its partition."""
        _three(bench)
        bench.trim(1, 2)
        bench.write(2, [(b"c", b"4", 1_000)])
        tail = bench.reader.tail()
        try:
            tail.begin(1, 0)
            tail.begin(2, 0)
            stretches = polled(tail, {2: 1}, broken={1})
            [good] = [each for each in stretches if not each.broken]
            assert (good.partition, good.keys, good.first, good.last) == (2, [b"c"], good.last, (0, 0))
            tail.begin(1, 2)
            assert followed(tail, {1: 3}) == {1: [b"333"]}
        finally:
            tail.close()

    def test_a_journal_that_is_itself_passes_its_check(self, bench: Bench) -> None:
        """The check raises nothing, and the reader still reads every record."""
        _three(bench)
        bench.reader.check()
        assert [record.value for record in read_all(bench.reader, 1)] == [b"1", b"22", b"333"]

    def test_closing_twice_is_closing_once(self, bench: Bench) -> None:
        """The second close raises nothing, and another reader of the log still reads."""
        _three(bench)
        bench.reader.close()
        bench.reader.close()
        assert [record.value for record in read_all(bench.other(), 1)] == [b"1", b"22", b"333"]
