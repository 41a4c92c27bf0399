"""An index of a process's history: a mark for each entry, by which a page finds its entries."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seekpoint.schemas.bodies import Claim, Custom
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap, UnknownProcess
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.log.log_ports import Batch, Record

_SLICE_ENTRIES = 100
"""So many entries are taken before the clock is asked again."""


class EntryMark(NamedTuple):
    """An entry without its content."""

    offset: int
    ts_us: int
    """When its writer made it, by the writer's clock."""
    seq: int | None
    epoch: int
    """An owner's entry has its own; another one has the epoch of the process at its offset."""
    kind: str
    custom_kind: str | None
    node_id: str | None
    """Of a claim: who claims."""
    verdict: Verdict | None
    """None: the beginning of the log was deleted, so the fold cannot judge."""


class IndexListener(Protocol):
    """Receives what the index reads."""

    def forget(self) -> None:
        """Begin again: the log is another one, or its beginning was deleted meanwhile."""

    def before(self, one: Logged) -> None:
        """Receive the next entry before the fold does."""

    def take(self, one: Logged, mark: EntryMark, size: int) -> None:
        """Receive the entry with its mark and the bytes of its record."""


class EntryIndex:
    """The marks of one process. It reads the history once, in slices, then what was appended. Every call blocks."""

    def __init__(self, target: CommandTarget, process_id: str, listener: IndexListener) -> None:
        self._target = target
        self._process_id = process_id
        self._listener = listener
        self.partition = partition_of(process_key(process_id), target.log.partitions)
        self.low = 0
        """The first offset of the partition. Above 0, the beginning of the log was deleted."""
        self.is_complete = False
        """Whether everything was read that the log had at the last ``read_on``."""
        self.marks: list[EntryMark] = []
        """The marks so far, in log order. The list only grows; another log has another list."""
        self.begins: bool | None = True
        """Whether the log has the beginning of the history, so that the fold can judge; None: not known yet."""
        self.entries_read = 0
        """How many entries were decoded, to show that none is read twice."""
        self._forget(0)

    def read_on(self, seconds: float) -> bool:
        """Read for about so long, and return ``is_complete``. Raises ``UnknownProcess`` if there is no entry."""
        edges = self._target.log.watermarks(self.partition)
        if edges.low != self.low or edges.high < self._position:
            self._forget(edges.low)
        if edges.high > self._position:
            self.is_complete = self._read(edges.high, time.monotonic() + seconds)
        else:
            self.is_complete = True
        if self.is_complete and not self.marks and self.low == 0:
            log = self._target.log
            log.check()
            raise UnknownProcess(
                "no such process", journal=log.name, process_id=self._process_id, partition=self.partition
            )
        return self.is_complete

    @property
    def draft(self) -> Draft:
        """Return the fold's draft of what was read; worth nothing unless the history ``begins``."""
        return self._draft

    def restart(self) -> None:
        """Forget everything, and read the history once more from its beginning."""
        self._forget(self.low)

    def _forget(self, low: int) -> None:
        self.low = low
        self.marks = []
        self.is_complete = False
        self._position = low
        self._draft = Draft()
        self._epoch = 0
        self.begins = True if low == 0 else None
        self._listener.forget()

    def _read(self, high: int, deadline: float) -> bool:
        """Return whether everything below ``high`` was read."""
        log, key = self._target.log, process_key(self._process_id)
        try:
            for batch in log.read(self.partition, self._position, high, {key}):
                if not self._take_batch(batch, deadline):
                    return False
                self._position = batch.next_offset
                if time.monotonic() >= deadline and self._position < high:
                    return False
        except JournalGap:
            if log.watermarks(self.partition).low == self.low:
                raise
            return False  # trimmed meanwhile: the next slice begins again
        self._position = max(self._position, high)
        return True

    def _take_batch(self, batch: Batch, deadline: float) -> bool:
        records = [one for one in batch.records if one.offset >= self._position]
        for at in range(0, len(records), _SLICE_ENTRIES):
            chunk = records[at : at + _SLICE_ENTRIES]
            self._take(chunk)
            self._position = chunk[-1].offset + 1
            if time.monotonic() >= deadline and at + _SLICE_ENTRIES < len(records):
                return False
        return True

    def _take(self, records: Sequence[Record]) -> None:
        from seekpoint.consumers.log_reading.scan import entries_of
        from seekpoint.consumers.recovery.process_history import Logged

        limits = self._target.log.limits
        for record, entry in entries_of(records, self._target.log, self._target.recoverer.add_dead_letter):
            one = Logged(record.offset, record.timestamp_ms, entry)
            self.entries_read += 1
            self._listener.before(one)
            body = entry.body
            if self.begins is None:
                self.begins = _begins(entry)
            verdict = None if self.begins is False else advance(self._draft, record.offset, entry, limits)
            if self.begins is None:  # mail of a process that may have begun before the log does
                verdict = None
            if self.begins:
                self._epoch = self._draft.epoch
            elif entry.seq is not None:
                self._epoch = max(self._epoch, entry.epoch)
            mark = EntryMark(
                record.offset, entry.ts, entry.seq, self._epoch if entry.seq is None else entry.epoch, entry.kind,
                body.kind if isinstance(body, Custom) else None,
                body.node_id if isinstance(body, Claim) else None, verdict,
            )  # fmt: skip
            self.marks.append(mark)
            self._listener.take(one, mark, len(record.value or b""))


def _begins(entry: Entry) -> bool | None:
    """Return whether the entry is the beginning of a history; None: it is mail, which does not tell."""
    if isinstance(entry.body, Claim):
        return entry.body.expected_epoch == 0
    return None if entry.seq is None else False
