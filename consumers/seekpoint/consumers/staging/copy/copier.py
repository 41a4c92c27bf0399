"""The copy loop: read records, transform them, wait until each is due, send it, and wait for acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from seekpoint.consumers.staging.control import Control
from seekpoint.consumers.staging.copy.ack_windows import AckWindows
from seekpoint.consumers.staging.copy.copy_stats import CopyStats, Settled
from seekpoint.consumers.staging.copy.headers import OFFSET, TIMESTAMP, HeaderRules, Provenance
from seekpoint.consumers.staging.copy.merge import MergedReader
from seekpoint.consumers.staging.copy.pace import DueTimes, Pace
from seekpoint.consumers.staging.copy.partitioning import Partitioner
from seekpoint.consumers.staging.copy.tallies import MASK, NO_KEY, NO_VALUE, record_sum
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.replay_ports import OffsetRange, RangeReader, ReplayMessage, Sender
from seekpoint.consumers.staging.resume.delivered_records import DeliveredRecords
from seekpoint.schemas.errors import JournalUnavailable

_BATCH_RECORDS = 1_000
_TAKE_S = 0.1
_SLICE_S = 0.05
_PROGRESS_S = 0.2
_READ_EVERY_S = 0.02
"""How often a paced copy reads while the next record is not due."""
_WAIT_FULL_S = 0.01


class Copier:
    """The copy of offset ranges. Blocks; belongs to one thread.

    ``on_settled`` receives each settled point, ``on_progress`` the figures several times a second.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        reader: RangeReader,
        sender: Sender,
        partitioner: Partitioner,
        provenance: Provenance,
        *,
        headers: HeaderRules,
        transform: Transform | None = None,
        pace: Pace | None = None,
        control: Control | None = None,
        delivered: DeliveredRecords | None = None,
        stats: CopyStats | None = None,
        tail: Callable[[], Mapping[int, int]] = dict,
        on_settled: Callable[[Settled], None] = lambda settled: None,
        on_progress: Callable[[CopyStats], None] = lambda stats: None,
        silence_max_s: float = 60.0,
    ) -> None:
        self._stops = {each.partition: each.stop for each in ranges}
        self._reader = reader
        self._sender = sender
        self._partitioner = partitioner
        self._provenance = provenance
        self._headers = headers
        self._transform = transform
        self._pace = pace or Pace()
        self._control = control or Control()
        self._delivered = delivered
        self.stats = stats or CopyStats()
        for each in ranges:
            self.stats.positions.setdefault(each.partition, each.start)
        self._windows = AckWindows(self.stats, tail, on_settled)
        self._on_progress = on_progress
        self._silence_max_s = silence_max_s
        self._due_times = DueTimes(self._pace)
        self._progress_at = 0.0
        self._constants = {p: (provenance.job_header, provenance.source_header(p)) for p in self._stops}

    def run(self) -> bool:
        """Copy everything; return False if the replay was stopped before the end."""
        complete = self._copy_paced() if self._pace.is_paced else self._copy_unpaced()
        if complete:
            self._add_final_gaps()
        self._drain()
        self._settle()
        return complete

    # --- reading --------------------------------------------------------------------------------------------------
    def _copy_unpaced(self) -> bool:
        """Send records as they arrive, in order within each partition."""
        last_read_at = time.monotonic()
        while not self._control.is_stopped:
            if self._wait_if_paused():
                last_read_at = time.monotonic()
            messages = self._take(_TAKE_S)
            self._send_all(messages)
            self._between_batches()
            if not self._reader.unfinished():
                return True
            last_read_at = self._check_silence(messages, last_read_at)
        return False

    def _copy_paced(self) -> bool:
        """Send each record when it is due, by time over all partitions. Read the next ones while waiting.

        The time in which records are sent does not count as silence of the source: its partitions may be paused.
        """
        merged = MergedReader(self._reader, self._stops)
        last_read_at, next_read_at = time.monotonic(), 0.0
        while not self._control.is_stopped:
            message = merged.merge.next() if time.monotonic() < next_read_at else None
            if message is not None:
                self._send_paced(message)
                last_read_at = time.monotonic()
                continue
            messages = self._take(0.0 if merged.merge.has_next() else _SLICE_S)
            merged.add(messages)
            last_read_at = self._check_silence(messages, last_read_at)
            next_read_at = time.monotonic() + _READ_EVERY_S
            self._between_batches()
            if self._wait_if_paused():
                last_read_at = time.monotonic()
            if merged.is_done():
                return True
        return False

    def _take(self, timeout_s: float) -> Sequence[ReplayMessage]:
        messages = self._reader.take(_BATCH_RECORDS, timeout_s)
        self._note_times(messages)
        return messages

    def _check_silence(self, messages: Sequence[ReplayMessage], last_read_at: float) -> float:
        """Return the time of the last record. Raises ``JournalUnavailable`` if that is too long ago."""
        now = time.monotonic()
        if messages or not self._reader.unfinished():
            return now
        if now - last_read_at > self._silence_max_s:
            raise JournalUnavailable(
                f"no record came from the source for {now - last_read_at:.0f} s",
                hint="run the same command again: it continues",
            )
        return last_read_at

    def _note_times(self, messages: Sequence[ReplayMessage]) -> None:
        """Keep the first and last time, from the first and last record of each batch."""
        stats = self.stats
        for message in (*messages[:1], *messages[-1:]):
            stamp = message.timestamp()[1]
            stats.first_ms = stamp if stats.first_ms is None else min(stamp, stats.first_ms)
            stats.last_ms = stamp if stats.last_ms is None else max(stamp, stats.last_ms)

    # --- sending --------------------------------------------------------------------------------------------------
    def _send_all(self, messages: Sequence[ReplayMessage]) -> None:
        """Send a batch. The plain path decodes no value and creates no object that the client does not need."""
        self.stats.read += len(messages)
        plain = self._transform is None and self._partitioner.keeps_partitions and self._delivered is None
        send = self._send_plain if plain else self._send_one
        for message in messages:
            send(message)

    def _send_plain(self, message: ReplayMessage) -> None:
        """Send a record unchanged to the partition of the same number."""
        stats, partition, offset = self.stats, message.partition(), message.offset()
        if offset != stats.positions[partition]:
            stats.add_gap(partition, offset)
        stats.positions[partition] = offset + 1
        key, value, stamp, old_headers = message.key(), message.value(), message.timestamp()[1], message.headers()
        origin = (
            *self._constants[partition],
            (OFFSET, b"%d" % offset),
            (TIMESTAMP, b"%d" % stamp),
        )
        tally = stats.tallies.of_partition(partition)
        tally[0] += 1
        if old_headers is None:
            start = (offset * 0x9E3779B1 ^ stamp) & MASK  # record_sum, inlined: a call would cost a tenth of the copy
            start = start ^ NO_KEY if key is None else crc32(key, start)
            tally[2] += start ^ NO_VALUE if value is None else crc32(value, start)
            headers: list[Any] = list(origin)
        else:
            headers = self._headers.filtered(old_headers)
            tally[2] += record_sum(offset, key, value, stamp, headers)
            headers = [*headers, *origin, *self._provenance.path_headers(old_headers, partition, offset)]
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        if stamp <= 0:
            stats.restamped += 1
        self._produce(value, key, partition, stamp, headers)

    def _send_one(self, message: ReplayMessage) -> None:
        """Transform a record, choose its partition, and send it unless it was delivered before."""
        stats, partition, offset = self.stats, message.partition(), message.offset()
        if offset != stats.positions[partition]:
            stats.add_gap(partition, offset)
        stats.positions[partition] = offset + 1
        old_key, old_headers = message.key(), message.headers() or ()
        if self._transform is None:
            key, value, headers = old_key, message.value(), self._headers.filtered(old_headers)
        else:
            transformed = self._transform.apply(message)
            if transformed is None:
                return
            key, value, headers = transformed
        target_partition = self._partitioner.partition_for(key, partition, old_key)
        stamp = message.timestamp()[1]
        tally = stats.tallies.of_partition(target_partition)
        tally[0] += 1
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        tally[2] += record_sum(offset, key, value, stamp, headers)
        if stamp <= 0:
            stats.restamped += 1
        if self._delivered is not None and self._delivered.has(partition, target_partition, offset):
            stats.already_there += 1
            return
        origin = (*self._constants[partition], (OFFSET, b"%d" % offset), (TIMESTAMP, b"%d" % stamp))
        path = self._provenance.path_headers(old_headers, partition, offset) if old_headers else ()
        self._produce(value, key, target_partition, stamp, [*headers, *origin, *path])

    def _produce(self, value: Any, key: Any, partition: int, stamp: int, headers: list[Any]) -> None:
        window = self._windows.current
        window.unacknowledged += 1
        self.stats.sent += 1
        while True:
            try:
                self._sender.produce(value, key, partition, window.on_delivery, stamp, headers)
                return
            except BufferError:
                self._check()
                self._sender.poll(_WAIT_FULL_S)

    def _send_paced(self, message: ReplayMessage) -> None:
        """Send a record when it is due."""
        stats = self.stats
        due = self._due_times.due(time.monotonic(), message.timestamp()[1])
        if not self._wait_until(due):
            return
        late = time.monotonic() - due
        before = stats.sent
        stats.read += 1
        self._send_one(message)
        if stats.sent > before:
            stats.lateness.add(late)
            stats.behind_s = max(0.0, late)
        self._between_batches()

    def _wait_until(self, due: float) -> bool:
        """Wait; return False if the replay was stopped first."""
        while True:
            paused_s = self._wait_if_paused()
            due += paused_s
            if self._control.is_stopped:
                return False
            left_s = due - time.monotonic()
            if left_s <= 0:
                return True
            self._sender.poll(min(left_s, _SLICE_S))
            self._between_batches()

    def _wait_if_paused(self) -> float:
        """Wait for ``resume``; return the seconds of the pause. Due times move by them."""
        if not self._control.is_paused:
            return 0.0
        began = time.monotonic()
        while self._control.is_paused:
            self._sender.poll(_SLICE_S)
            self._check()
        paused_s = time.monotonic() - began
        self._due_times.shift(paused_s)
        return paused_s

    # --- acknowledgements -----------------------------------------------------------------------------------------
    def _between_batches(self) -> None:
        self._sender.poll(0)
        self._check()
        now = time.monotonic()
        if now - self._progress_at >= _PROGRESS_S:
            self._progress_at = now
            self._on_progress(self.stats)
        if self._windows.is_over():
            self._settle()

    def _settle(self) -> None:
        self._windows.settle()
        self._on_progress(self.stats)

    def _drain(self) -> None:
        """Wait until all records are acknowledged, as long as acknowledgements arrive at all."""
        last_ack_at, before = time.monotonic(), -1
        while self._windows.unacknowledged:
            self._sender.flush(_SLICE_S * 4)
            self._check()
            left = self._windows.unacknowledged
            if left != before:
                last_ack_at, before = time.monotonic(), left
            elif time.monotonic() - last_ack_at > self._silence_max_s:
                raise JournalUnavailable(
                    "the target acknowledged nothing for a long time",
                    unacknowledged=left,
                    hint="run the same command again: it continues",
                )

    def _check(self) -> None:
        """Raise the error of the first record that could not be delivered."""
        if self._windows.failure is not None:
            raise self._sender.refusal(self._windows.failure)

    def _add_final_gaps(self) -> None:
        """Count the missing records at the end of each range."""
        stats = self.stats
        for partition, stop in self._stops.items():
            if stats.positions[partition] < stop:
                stats.add_gap(partition, stop)
                stats.positions[partition] = stop
