"""Seeded entries: a process's state at the start of the range, so that a slice folds without the history before it.

Seeded are the processes that were asked for by id, else those with a record in the range; who begins within it needs
none. A state is found by recovery where the source has it (few processes, or a log whose beginning is gone), else by
one scan of what lies before the range.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

from seekpoint.consumers.staging.copy.copy_stats import CopyStats
from seekpoint.consumers.staging.copy.headers import OFFSET, SEEDED, TIMESTAMP, Provenance
from seekpoint.consumers.staging.copy.partitioning import Partitioner
from seekpoint.consumers.staging.copy.tallies import record_sum
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.copy.whole import whole
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource, Sender
from seekpoint.consumers.staging.resume.resumption import Delivered
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused, UndecodableRecord
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.wire.codec import Codec, encode

__all__ = ["Recovering", "Seeds"]

_RECOVERED_MAX = 100
"""So many processes of a partition are recovered one by one; more are found by one scan."""
_POLL_S = 0.1


@runtime_checkable
class Recovering(Protocol):
    """A source that can find the state of a process as of an offset, without reading all before it."""

    def state_at(self, process_id: str, offset: int) -> State | None:
        """The state right after ``offset``; None if no entry made one. Raises ``JournalGap``."""


@dataclass(slots=True, kw_only=True)
class Seeds:
    """Finds and sends the seeded entries of one replay."""

    source: ReplaySource
    codec: Codec
    treatment: Transform
    partitioner: Partitioner
    provenance: Provenance
    stretches: Sequence[OffsetRange]
    processes: frozenset[str] | None
    partitions: int
    """Of the source."""
    silence_max_s: float
    _left: int = 0
    _errors: list[Any] = field(default_factory=list)

    def send(self, sender: Sender, flow: CopyStats, delivered: Delivered | None) -> None:
        """Send one of each process that has a state, and wait until all are acknowledged."""
        for stretch in self.stretches:
            if stretch.start > 0:
                for process_id, stamp, state in self._states(stretch):
                    self._send(sender, flow, delivered, stretch.partition, process_id, stamp, state)
        heard, before = time.monotonic(), self._left
        while self._left and not self._errors:
            sender.poll(_POLL_S)
            if self._left != before:
                heard, before = time.monotonic(), self._left
            elif time.monotonic() - heard > self.silence_max_s:
                raise JournalUnavailable("the target acknowledges no seeded entry", hint="run the same command again")
        if self._errors:
            raise sender.refusal(self._errors[0])

    # --- states
    def _states(self, stretch: OffsetRange) -> Iterator[tuple[str, int, State]]:
        """Process, time of its seed, state: of who had one before the range."""
        first_seen = self._first_seen(stretch)
        low = self.source.marks()[stretch.partition].low
        few = len(first_seen) <= _RECOVERED_MAX
        if isinstance(self.source, Recovering) and (low > 0 or few):
            found = self._recovered(first_seen, stretch)
        elif low > 0:
            raise ReplayRefused(
                "states at the start of the range cannot be found: the beginning of the log is gone",
                partition=stretch.partition,
                low=low,
                hint="replay without --seeded, or from a journal with checkpoints",
            )
        else:
            found = self._scanned(first_seen, stretch)
        for process_id, state in found:
            yield process_id, first_seen[process_id], state

    def _first_seen(self, stretch: OffsetRange) -> dict[str, int]:
        """The processes to be seeded, in order, each with the time of its first record in the range."""
        seen: dict[str, int] = {}
        newest = 0
        for message in self._messages(stretch):
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
            if partition_of(process_id.encode(), self.partitions) == stretch.partition:
                seen.setdefault(process_id, newest)
        return seen

    def _recovered(self, wanted: Iterable[str], stretch: OffsetRange) -> Iterator[tuple[str, State]]:
        assert isinstance(self.source, Recovering)
        for process_id in wanted:
            if partition_of(process_id.encode(), self.partitions) == stretch.partition:
                state = self.source.state_at(process_id, stretch.start - 1)
                if state is not None:
                    yield process_id, state

    def _scanned(self, wanted: Mapping[str, int], stretch: OffsetRange) -> Iterator[tuple[str, State]]:
        """One scan of all that lies before the range. Poison is what it is to every reader: nothing."""
        drafts = {process_id.encode(): Draft() for process_id in wanted}
        for message in self._messages(OffsetRange(stretch.partition, 0, stretch.start)):
            key = message.key()
            draft = drafts.get(key)
            if draft is None or partition_of(key, self.partitions) != stretch.partition:
                continue
            try:
                entry = self.codec.decode(message.value())
            except UndecodableRecord:
                continue
            if entry.process_id.encode() == key:
                advance(draft, message.offset(), entry, self.codec.limits)
        for key, draft in drafts.items():
            if draft.offset >= 0:  # of nobody's entries too (forged, stale): behind them no seed of the source counts
                yield key.decode(), draft.freeze()

    def _messages(self, stretch: OffsetRange) -> Iterator[Any]:
        if stretch.start < stretch.stop:
            silent = JournalUnavailable("the source brings nothing", partition=stretch.partition)
            for messages in whole(self.source.read([stretch]), self.silence_max_s, silent):
                yield from messages

    # --- entries
    def _send(
        self,
        sender: Sender,
        flow: CopyStats,
        delivered: Delivered | None,
        partition: int,
        process_id: str,
        stamp: int,
        state: State,
    ) -> None:
        entry = self.treatment.entry(self._entry(process_id, stamp, state))
        if entry is None:
            return
        key, value = entry.process_id.encode(), encode(entry)
        self._refuse_large(process_id, value)
        to = self.partitioner.of(key, partition, process_id.encode())
        tally = flow.tallies.of(to)
        tally[0] += 1
        tally[1] += len(key) + len(value)
        tally[2] += record_sum(state.offset, key, value, stamp, ())
        flow.seeded += 1
        if delivered is not None and key in delivered.seeded:
            return
        origin = [self.provenance.job_header, self.provenance.source_header(partition), (SEEDED, b"1")]
        origin += [(OFFSET, b"%d" % state.offset), (TIMESTAMP, b"%d" % stamp)]
        self._left += 1
        while True:
            try:
                sender.produce(value, key, to, self._told, stamp, origin)
                return
            except BufferError:
                sender.poll(_POLL_S)

    def _entry(self, process_id: str, stamp: int, state: State) -> Entry:
        """Always the same for the same job and process: a resumed replay counts what the former one sent."""
        noise = blake2b(f"{self.provenance.job}/{process_id}".encode(), digest_size=16).digest()
        text = state.to_bytes().decode()
        return Entry(noise, process_id, None, 0, None, None, stamp * 1000, None, None, None, b.Seeded(text))

    def _refuse_large(self, process_id: str, value: bytes) -> None:
        if len(value) > self.codec.limits.restoring_bytes:
            raise ReplayRefused(
                "a state is too large for one entry: it cannot be seeded",
                process_id=process_id,
                bytes=len(value),
                limit=self.codec.limits.restoring_bytes,
                hint="replay this process from its beginning, without --seeded",
            )

    def _told(self, error: Any, message: Any) -> None:
        self._left -= 1
        if error is not None:
            self._errors.append(error)
