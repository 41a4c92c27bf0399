"""Seeded entries: each holds a process's state at the start of the range, so that the range folds without its history.

Processes that were selected by id are seeded, else those with a record in the range. A process that begins within the
range has no state before it, and needs none. States are recovered where the source can recover (for few processes, or
a log whose beginning was trimmed), else folded in one scan of the log before the range.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seekpoint.consumers.kafka.messages import record_of
from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.staging.copy.copy_stats import CopyStats
from seekpoint.consumers.staging.copy.full_read import read_to_end
from seekpoint.consumers.staging.copy.headers import OFFSET, SEEDED, TIMESTAMP, Provenance
from seekpoint.consumers.staging.copy.partitioning import Partitioner
from seekpoint.consumers.staging.copy.tallies import record_sum
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplayMessage, ReplaySource, Sender
from seekpoint.consumers.staging.resume.delivered_records import DeliveredRecords
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.wire.codec import Codec, encode

_RECOVERED_MAX = 100
"""Up to so many processes of a partition are recovered one by one; more are found by one scan."""
_POLL_S = 0.1


@runtime_checkable
class RecoveringSource(Protocol):
    """A source that can recover the state of a process at an offset, without reading the whole log before it."""

    def state_at(self, process_id: str, offset: int) -> State | None:
        """Return the state right after ``offset``; None if no entry created one. Raises ``JournalGap``."""


class _Seed(NamedTuple):
    partition: int
    process_id: str
    timestamp_ms: int
    state: State


@dataclass(slots=True, kw_only=True)
class Seeder:
    """Finds the states of one replay, and sends them as seeded entries."""

    source: ReplaySource
    codec: Codec
    transform: Transform
    partitioner: Partitioner
    provenance: Provenance
    ranges: Sequence[OffsetRange]
    processes: frozenset[str] | None
    partitions: int
    """The number of partitions of the source."""
    silence_max_s: float
    _unacknowledged: int = 0
    _errors: list[Any] = field(default_factory=list)

    def send(self, sender: Sender, stats: CopyStats, delivered: DeliveredRecords | None) -> None:
        """Send a seeded entry for each process that has a state, and wait until all are acknowledged."""
        for offset_range in self.ranges:
            if offset_range.start > 0:
                for seed in self._seeds(offset_range):
                    self._send(sender, stats, delivered, seed)
        last_ack_at, before = time.monotonic(), self._unacknowledged
        while self._unacknowledged and not self._errors:
            sender.poll(_POLL_S)
            if self._unacknowledged != before:
                last_ack_at, before = time.monotonic(), self._unacknowledged
            elif time.monotonic() - last_ack_at > self.silence_max_s:
                raise JournalUnavailable("the target acknowledges no seeded entry", hint="run the same command again")
        if self._errors:
            raise sender.refusal(self._errors[0])

    # --- states
    def _seeds(self, offset_range: OffsetRange) -> Iterator[_Seed]:
        """Yield the processes that have a state before the range."""
        first_seen = self._first_seen(offset_range)
        low = self.source.watermarks()[offset_range.partition].low
        if isinstance(self.source, RecoveringSource) and (low > 0 or len(first_seen) <= _RECOVERED_MAX):
            states = self._recovered(self.source, first_seen, offset_range)
        elif low > 0:
            raise ReplayRefused(
                "states at the start of the range cannot be found: the beginning of the log is gone",
                partition=offset_range.partition,
                low=low,
                hint="replay without --seeded, or from a journal with checkpoints",
            )
        else:
            states = self._scanned(first_seen, offset_range)
        for process_id, state in states:
            yield _Seed(offset_range.partition, process_id, first_seen[process_id], state)

    def _first_seen(self, offset_range: OffsetRange) -> dict[str, int]:
        """Return the processes to seed, in order, with the time of their first record in the range."""
        seen: dict[str, int] = {}
        newest = 0
        for message in self._messages(offset_range):
            newest = max(newest, message.timestamp()[1])
            key = message.key()
            if key is None:
                continue
            try:
                process_id = key.decode()
            except UnicodeDecodeError:
                continue
            if self.processes is None or process_id in self.processes:
                seen.setdefault(process_id, message.timestamp()[1])
        for process_id in sorted(self.processes or ()):
            if partition_of(process_id.encode(), self.partitions) == offset_range.partition:
                seen.setdefault(process_id, newest)
        return seen

    def _recovered(
        self, source: RecoveringSource, process_ids: Iterable[str], offset_range: OffsetRange
    ) -> Iterator[tuple[str, State]]:
        for process_id in process_ids:
            if partition_of(process_id.encode(), self.partitions) == offset_range.partition:
                state = source.state_at(process_id, offset_range.start - 1)
                if state is not None:
                    yield process_id, state

    def _scanned(self, process_ids: Mapping[str, int], offset_range: OffsetRange) -> Iterator[tuple[str, State]]:
        """Fold the log before the range, and skip poison as every reader does."""
        partition = offset_range.partition
        drafts = {process_id.encode(): Draft() for process_id in process_ids}
        messages = self._messages(OffsetRange(partition, 0, offset_range.start))
        records = (record_of(partition, message) for message in messages if message.key() in drafts)
        for record, entry in entries_of(records, self):
            advance(drafts[entry.process_id.encode()], record.offset, entry, self.codec.limits)
        for key, draft in drafts.items():
            if draft.offset >= 0:  # also after forged or stale entries only: a seed of the source does not count then
                yield key.decode(), draft.freeze()

    def _messages(self, offset_range: OffsetRange) -> Iterator[ReplayMessage]:
        if offset_range.start < offset_range.stop:
            timeout = JournalUnavailable("no record comes from the source", partition=offset_range.partition)
            for messages in read_to_end(self.source.read([offset_range]), self.silence_max_s, timeout):
                yield from messages

    # --- entries
    def _send(self, sender: Sender, stats: CopyStats, delivered: DeliveredRecords | None, seed: _Seed) -> None:
        entry = self.transform.apply_to_entry(self._entry(seed))
        if entry is None:
            return
        self._refuse_attached(seed)
        key, value = entry.process_id.encode(), encode(entry)
        self._refuse_large(seed.process_id, value)
        target_partition = self.partitioner.partition_for(key, seed.partition, seed.process_id.encode())
        tally = stats.tallies.of_partition(target_partition)
        tally[0] += 1
        tally[1] += len(key) + len(value)
        tally[2] += record_sum(seed.state.offset, key, value, seed.timestamp_ms, ())
        stats.seeded += 1
        if delivered is not None and key in delivered.seeded:
            return
        headers = [self.provenance.job_header, self.provenance.source_header(seed.partition), (SEEDED, b"1")]
        headers += [(OFFSET, b"%d" % seed.state.offset), (TIMESTAMP, b"%d" % seed.timestamp_ms)]
        self._unacknowledged += 1
        while True:
            try:
                sender.produce(value, key, target_partition, self._on_delivery, seed.timestamp_ms, headers)
                return
            except BufferError:
                sender.poll(_POLL_S)

    def _entry(self, seed: _Seed) -> Entry:
        """Return the same entry for the same job and process, so that a resumed replay counts what was sent before."""
        entry_id = blake2b(f"{self.provenance.job}/{seed.process_id}".encode(), digest_size=16).digest()
        body = b.Seeded(seed.state.to_bytes().decode())
        return Entry(entry_id, seed.process_id, None, 0, None, None, seed.timestamp_ms * 1000, None, None, None, body)

    def _refuse_attached(self, seed: _Seed) -> None:
        """Refuse a state whose attachments are in entries before the range: the copy would have references only."""
        lost = [one for one in seed.state.attachments.values() if not one.store]
        if lost:
            raise ReplayRefused(
                f"the process has attachments before the range ({len(lost)}): a seed does not bring their bytes",
                process_id=seed.process_id, bytes=sum(one.size for one in lost),
                hint="replay it from its beginning, without --seeded, or leave it out with --process",
            )  # fmt: skip

    def _refuse_large(self, process_id: str, value: bytes) -> None:
        if len(value) > self.codec.limits.restoring_bytes:
            raise ReplayRefused(
                "a state is too large for one entry: it cannot be seeded",
                process_id=process_id,
                bytes=len(value),
                limit=self.codec.limits.restoring_bytes,
                hint="replay this process from its beginning, without --seeded",
            )

    def _on_delivery(self, error: Any, message: Any) -> None:
        self._unacknowledged -= 1
        if error is not None:
            self._errors.append(error)
