"""Read the entries of one process from the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.schemas.bodies import Custom
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import JournalGap, UnknownProcess
from seekpoint.schemas.log.log_ports import Batch
from seekpoint.schemas.log.partition import partition_of

_WINDOW = 1_000
"""How many offsets a search from the end reads first. Each further window is twice as large."""


class Logged(NamedTuple):
    """An entry with its offset and its record's timestamp: milliseconds since 1970, by the writer's clock."""

    offset: int
    timestamp_ms: int
    entry: Entry


def history(
    recoverer: Recoverer,
    process_id: str,
    *,
    from_seq: int | None = None,
    kinds: Collection[str] | None = None,
    limit: int | None = None,
    follow: bool = False,
    start: int = 0,
) -> Generator[list[Logged], None, None]:
    """Yield batches of the process's entries; see ``Recovery.entries``. Blocks; reads from the log's beginning.

    ``start`` is an offset below which the process is known to have no entry: reading begins there. With ``follow``, an
    empty batch means that there is nothing new: wait a moment before asking for the next one. Poison is left out. Of a
    trimmed log the rest is read; raises ``JournalGap`` if ``from_seq`` was deleted.
    """
    log = recoverer.log
    key = process_key(process_id)
    partition = partition_of(key, log.partitions)
    selection = _EntryFilter(from_seq, kinds, limit)
    marks = log.watermarks(partition)
    position, found = max(marks.low, start), False
    while not selection.is_exhausted:
        try:
            for batch in log.read(partition, position, marks.high, {key}):
                logged = logged_of(recoverer, batch)
                found = found or bool(logged)
                selection.refuse_trimmed(logged, marks.low, process_id, partition)
                if chosen := selection.select(logged):
                    yield chosen
                if selection.is_exhausted:
                    return
        except JournalGap:
            if found or position > marks.low or not recoverer.is_trimmed_since(partition, marks.low):
                raise
            marks = log.watermarks(partition)  # nothing was yielded yet: begin with what is left
            position = marks.low
            continue
        position = max(position, marks.high)
        if not follow:
            if not found and marks.low == 0:
                log.check()
                raise UnknownProcess("no such process", journal=log.name, process_id=process_id, partition=partition)
            return
        yield []
        marks = log.watermarks(partition)


def whole_history(recoverer: Recoverer, process_id: str, *, start: int = 0) -> list[Logged]:
    """Return all entries of the process, in memory, as ``history`` yields them. Blocks; raises what it raises."""
    return [one for batch in history(recoverer, process_id, start=start) for one in batch]


def histories(
    recoverer: Recoverer, partition: int, keys: Collection[bytes], start: int | None = None, stop: int | None = None
) -> dict[bytes, list[Logged]]:
    """Return all entries of several processes of one partition, by key, from one read of the log. Blocks.

    It reads from ``start`` to before ``stop``, by default the whole partition. All entries are in memory. Poison is
    left out. Of a trimmed log the rest is returned, but a ``start`` that was deleted raises ``JournalGap``.
    """
    log, found = recoverer.log, dict[bytes, list[Logged]]()
    marks = log.watermarks(partition)
    start, stop = (marks.low if start is None else start), (marks.high if stop is None else stop)
    for batch in log.read(partition, start, stop, set(keys)):
        for one in logged_of(recoverer, batch):
            found.setdefault(process_key(one.entry.process_id), []).append(one)
    return found


def newest_entry(recoverer: Recoverer, process_id: str, matches: Callable[[Entry], bool]) -> Logged | None:
    """Return the newest entry of the process that ``matches``; None if the log has none. Blocks.

    Reads the partition backwards in growing windows, so that an entry near the end is found without reading the rest.
    """
    log, key = recoverer.log, process_key(process_id)
    partition = partition_of(key, log.partitions)
    marks, width = log.watermarks(partition), _WINDOW
    stop = marks.high
    while stop > marks.low:
        start = max(marks.low, stop - width)
        found = [
            one
            for batch in log.read(partition, start, stop, {key})
            for one in logged_of(recoverer, batch)
            if matches(one.entry)
        ]
        if found:
            return found[-1]
        stop, width = start, width * 2
    return None


def logged_of(recoverer: Recoverer, batch: Batch) -> list[Logged]:
    """Decode the records of a batch. Poison becomes dead letters, and is left out."""
    decoded = entries_of(batch.records, recoverer.log, recoverer.add_dead_letter)
    return [Logged(record.offset, record.timestamp_ms, entry) for record, entry in decoded]


class _EntryFilter:
    """Selects the requested entries, up to a limit."""

    def __init__(self, from_seq: int | None, kinds: Collection[str] | None, limit: int | None) -> None:
        self._from_seq = from_seq
        self._started = from_seq is None
        self._kinds = None if kinds is None else frozenset(kinds)
        self._left = limit

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def select(self, logged: list[Logged]) -> list[Logged]:
        """Return the requested entries among ``logged``."""
        if not self._started:
            logged = self._from_first(logged)
        if self._kinds is not None:
            logged = [one for one in logged if not self._kinds.isdisjoint(kinds_of(one.entry))]
        if self._left is not None:
            logged = logged[: self._left]
            self._left -= len(logged)
        return logged

    def refuse_trimmed(self, logged: list[Logged], low: int, process_id: str, partition: int) -> None:
        """Raise ``JournalGap`` if the log was trimmed and its first seq is above the requested one."""
        if self._started or low == 0 or self._from_seq is None:
            return
        first = next((one.entry.seq for one in logged if one.entry.seq is not None), None)
        if first is not None and first > self._from_seq:
            raise JournalGap(
                "requested entries were deleted from the log",
                process_id=process_id, partition=partition, low=low, from_seq=self._from_seq,
            )  # fmt: skip

    def _from_first(self, logged: list[Logged]) -> list[Logged]:
        assert self._from_seq is not None
        for index, one in enumerate(logged):
            if one.entry.seq is not None and one.entry.seq >= self._from_seq:
                self._started = True
                return logged[index:]
        return []


def kinds_of(entry: Entry) -> tuple[str, ...]:
    """Return the kinds by which an entry is selected: that of its body, and the one that a program gave its record."""
    body = entry.body
    return (entry.kind, body.kind) if isinstance(body, Custom) else (entry.kind,)
