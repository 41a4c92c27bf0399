"""The records of a process: its entries with the fold's verdict on each, read from a point of its history on.

Whether an entry counts depends on what came before it. So a read folds: from the process's first entry on, or from
where an earlier read of this node has ended (``ReadEnd``).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from seekpoint.consumers.log_reading.leader_epochs import is_intact
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.process_history import kinds_of, logged_of
from seekpoint.producers.durable.replay.recorded_run import Admission
from seekpoint.schemas.bodies import ContentBatch, ContextUpdated, ContextUpdatedMany, Custom, Deleted
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap, LogTruncated, Refused, UnknownPoint
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.schemas.bodies import Body
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.log.log_ports import Batch
    from seekpoint.schemas.state.process_state import State


_KEPT_BYTES_MAX = 8_388_608
"""How many bytes of new entries are kept until it is known that none of them deletes the process."""


class ProcessRecord(NamedTuple):
    """One entry of a process, decoded, and whether it counts."""

    process_id: str
    """The process that has the entry: the one that was asked for, or one that it was forked from."""
    offset: int
    """Its offset in the partition of that process."""
    timestamp_ms: int
    """The time of the log's record: milliseconds since 1970, by the writer's clock."""
    is_applied: bool
    """Whether the fold applied it: False for entries of fenced owners, lost claims, duplicates and refused mail."""
    entry: Entry

    @property
    def cursor(self) -> str:
        """Return the place right after this record, for ``records(..., after=)``."""
        return f"{self.offset}@{self.process_id}"

    @property
    def id(self) -> bytes:
        """Return the entry's id: 16 bytes."""
        return self.entry.id

    @property
    def seq(self) -> int | None:
        """Return the entry's number in its process; None for claims and signals."""
        return self.entry.seq

    @property
    def body(self) -> Body:
        """Return the body of the entry."""
        return self.entry.body

    @property
    def kind(self) -> str:
        """Return the kind of the body; of ``process.record(kind, ...)``, the kind that was given there."""
        return kinds_of(self.entry)[-1]

    @property
    def payload(self) -> Any:
        """Return the payload of ``process.record(kind, payload)``, decoded anew; None for any other body."""
        body = self.entry.body
        return load(body.payload) if isinstance(body, Custom) else None

    def value(self, key: str, default: Any = None) -> Any:
        """Return what the entry sets the context value ``key`` to, decoded anew; ``default`` if it sets none.

        A patch says only what it changes of a value: it sets none.
        """
        body, text = self.entry.body, None
        if isinstance(body, ContextUpdated):
            text = body.value if body.key == key else None
        elif isinstance(body, ContextUpdatedMany | ContentBatch):
            text = body.values.get(key)
        return default if text is None else load(text)

    @property
    def time(self) -> datetime:
        """Return when the entry was written, by its writer's clock."""
        return datetime.fromtimestamp(self.entry.ts / 1_000_000, UTC)


class RecordSelection(FrozenStruct, frozen=True, kw_only=True):
    """The choice of records."""

    kinds: frozenset[str] | None
    applied: bool
    limit: int | None

    @classmethod
    def of(cls, kinds: Collection[str] | None, applied: bool, limit: int | None) -> RecordSelection:
        """Check the options. Raises ``Refused``."""
        if isinstance(kinds, str):
            raise Refused("kinds is a list of kinds, not a text", hint=f"kinds=[{kinds!r}]")
        if limit is not None and limit < 1:
            raise Refused("a limit is at least 1", found=repr(limit)[:80])
        return cls(kinds=None if kinds is None else frozenset(kinds), applied=applied, limit=limit)

    def wants(self, record: ProcessRecord) -> bool:
        """Return whether the record is selected."""
        if self.applied and not record.is_applied:
            return False
        return self.kinds is None or not self.kinds.isdisjoint(kinds_of(record.entry))


class Place(NamedTuple):
    """A place in the history of a process: right after an offset, or right after the entry with a seq."""

    process_id: str
    offset: int | None = None
    seq: int | None = None


def place_of(process_id: str, after: str | None, after_offset: int | None, after_seq: int | None) -> Place | None:
    """Return the place that a caller named; None: the beginning. Raises ``Refused``."""
    if sum(one is not None for one in (after, after_offset, after_seq)) > 1:
        raise Refused("there are several places to read after", hint="one of after, after_offset, after_seq")
    if after is not None:
        offset, at, owner = after.partition("@")
        if not at or not owner or not offset.isascii() or not offset.isdigit():
            raise Refused("that is no cursor", found=repr(after)[:80], hint="pass the cursor of a record as it is")
        return Place(owner, offset=int(offset))
    if (after_offset or 0) < -1 or (after_seq or 0) < 0:
        raise Refused("no place in a log is negative", found=repr(after_offset if after_seq is None else after_seq))
    return None if after_offset is None and after_seq is None else Place(process_id, after_offset, after_seq)


class DeletedSinceError(Exception):
    """The process may have been deleted since the read that ended there: what came before is not to be given."""


class ReadEnd(FrozenStruct, frozen=True):
    """The end of a read of a process: everything below ``position`` is in ``state``."""

    state: State
    position: int
    known_to: int
    """The offset below which the process was not deleted after the position."""
    landmark: Landmark
    """A record right below the position. With another leader epoch, the log was truncated since."""


class Line(FrozenStruct, frozen=True, kw_only=True):
    """The part of one process's history that is to be read."""

    process_id: str
    begins: State | ReadEnd
    """The state of the process as of now; or where an earlier read has ended, that selected nothing since ``after``."""
    after: Place | None = None
    stop_seq: int | None = None
    """The seq at which a fork left the process; None: to the end."""


class LineReading:
    """One read of a line. ``batches`` blocks, and runs in one thread after the other."""

    def __init__(self, recoverer: Recoverer, line: Line, selection: RecordSelection, limit: int | None) -> None:
        self._recoverer = recoverer
        self._log = recoverer.log
        self._line = line
        self._key = process_key(line.process_id)
        self._partition = partition_of(self._key, recoverer.log.partitions)
        self._selection = selection
        self._admission = Admission(self._log.limits)
        self._stop = 0
        """The offset up to which it reads."""
        self._deleted_seq = 0
        """The seq of the newest deletion: what came before belongs to an earlier process of the id."""
        self.left = limit
        """How many records are still wanted; None: all."""
        self.end: ReadEnd | None = None
        """Where it has ended, at the limit or where there is no more; None: it was broken off, or that is not known."""

    def batches(self) -> Generator[list[ProcessRecord], None, None]:
        """Yield the selected records. Raises ``JournalGap``, ``LogTruncated``, ``UnknownPoint``, what a read raises.

        Raises ``DeletedSinceError``, before anything else, if it goes on where a read of the old process has ended.
        """
        begins, last = self._line.begins, None
        if isinstance(begins, ReadEnd):
            read, last = self._go_on(begins), begins.landmark
        else:
            read = self._begin(begins)
        for batch, entries in read:
            found, over_at = self._selected(entries)
            if self.left is not None:
                self.left -= len(found)
            if over_at is not None:
                self._end_at(over_at + 1, _landmark_at(over_at, batch))
                yield found
                return
            last = batch.last or last
            if found:
                yield found
        self._end_at(self._stop, last)

    def _batches(self, start: int, stop: int) -> Iterator[_Read]:
        for batch in self._log.read(self._partition, start, stop, {self._key}):
            yield batch, logged_of(self._recoverer, batch)

    def _selected(self, entries: list[Logged]) -> tuple[list[ProcessRecord], int | None]:
        """Fold ``entries``; return the selected ones, and the offset of the last one that was wanted, if that came."""
        found: list[ProcessRecord] = []
        for one in entries:
            is_after = self._is_after(one) and self._admission.draft.deleted_seq == self._deleted_seq
            is_applied = self._admission.admits(one.offset, one.entry)
            record = ProcessRecord(self._line.process_id, one.offset, one.timestamp_ms, is_applied, one.entry)
            if is_after and self._selection.wants(record):
                found.append(record)
            is_stop = is_applied and one.entry.seq is not None and one.entry.seq == self._line.stop_seq
            if is_stop or (self.left is not None and len(found) >= self.left):
                return found, one.offset
        return found, None

    def _is_after(self, one: Logged) -> bool:
        """Return whether the entry, which is not folded yet, comes after the place."""
        after = self._line.after
        if after is None or isinstance(self._line.begins, ReadEnd):
            return True
        if after.offset is not None:
            return one.offset > after.offset
        return after.seq is None or self._admission.draft.seq >= after.seq

    def _end_at(self, position: int, landmark: Landmark | None) -> None:
        if landmark is not None:
            self.end = ReadEnd(self._admission.draft.freeze(), position, self._stop, landmark)

    def _go_on(self, end: ReadEnd) -> Iterator[_Read]:
        """Go on where an earlier read has ended. What is new is read first: it tells of a deletion."""
        self._stop = self._recoverer.readable_end(self._partition, self._line.process_id)
        if self._stop < end.known_to:
            raise LogTruncated(
                "the log ends before what was read", partition=self._partition, offset=end.known_to, high=self._stop
            )
        self._admission = Admission(self._log.limits, end.state.thaw())
        self._deleted_seq = end.state.deleted_seq
        new = self._new(end)
        known = self._batches(end.position, end.known_to)
        return chain((self._intact(end, one) for one in known), new)

    def _new(self, end: ReadEnd) -> Iterable[_Read]:
        """Return what was written behind ``end``. Much of it is read a second time rather than kept."""
        new, width = list[_Read](), 0
        for read in self._batches(end.known_to, self._stop):
            batch, entries = self._intact(end, read)
            if any(isinstance(one.entry.body, Deleted) for one in entries):
                raise DeletedSinceError
            width += sum(len(record.value or b"") for record in batch.records)
            if width <= _KEPT_BYTES_MAX:
                new.append((batch, entries))
            else:
                new.clear()
        return new if width <= _KEPT_BYTES_MAX else self._batches(end.known_to, self._stop)

    def _intact(self, end: ReadEnd, read: _Read) -> _Read:
        """Return what was read behind ``end``. Raises ``LogTruncated`` if another leader has written over the end."""
        first, landmark = read[0].first, end.landmark
        is_other = first is not None and first.leader_epoch != landmark.leader_epoch
        if is_other and not is_intact(self._log, self._partition, landmark):
            raise LogTruncated(
                "another leader epoch: the log was truncated",
                partition=self._partition, offset=landmark.offset, expected=landmark.leader_epoch,
            )  # fmt: skip
        return read

    def _begin(self, newest: State) -> Iterator[_Read]:
        """Begin at the process's first entry; the end is that of ``newest``, which is as of the call.

        Where the log was trimmed, a checkpoint has to know the state at the place.
        """
        line, after = self._line, self._line.after
        marks = self._log.watermarks(self._partition)
        if after is not None and after.offset is not None and after.offset >= marks.high:
            raise UnknownPoint(
                "the log ends before this offset", process_id=line.process_id, offset=after.offset, **marks._asdict()
            )  # fmt: skip
        if after is not None and after.seq is not None and after.seq > newest.seq:
            raise UnknownPoint(
                "the process has not applied this seq", process_id=line.process_id, at_seq=after.seq, seq=newest.seq
            )
        self._deleted_seq, self._stop = newest.deleted_seq, newest.offset + 1
        first = newest.first_offset or 0
        if first >= marks.low:
            return self._batches(first, self._stop)
        if after is None or after.offset == -1 or after.seq == 0:
            raise JournalGap(
                "the beginning of the history was deleted from the log", process_id=line.process_id,
                partition=self._partition, offset=first, low=marks.low, high=marks.high,
                hint="node.entries reads what is left",
            )  # fmt: skip
        base = self._recoverer.recover(line.process_id, point=Point(seq=after.seq, offset=after.offset)).state
        self._admission = Admission(self._log.limits, base.thaw())
        return self._batches(base.offset + 1, self._stop)


_Read: TypeAlias = "tuple[Batch, list[Logged]]"
"""A batch, and the entries in it."""


def _landmark_at(offset: int, batch: Batch) -> Landmark | None:
    """Return the landmark of a record of the batch; None where the batch has records of several leaders."""
    first, last = batch.first, batch.last
    same = first is not None and last is not None and first.leader_epoch == last.leader_epoch
    return Landmark(offset, first.leader_epoch) if same and first is not None else None
