"""The entries of one process, as they lie in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.schemas.bodies import Custom
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import JournalGap, UndecodableRecord, UnknownProcess
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of

__all__ = ["Logged", "history", "newest"]

_WINDOW = 1_000
"""How many offsets a search from the end reads first; each time twice as many."""


class Logged(NamedTuple):
    """An entry and its place. ``timestamp_ms``, since 1970, is its record's: the writer's clock."""

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
) -> Generator[list[Logged], None, None]:
    """Batches of the process's entries; see ``Recovery.entries``. Blocks; reads from the log's beginning.

    With ``follow`` an empty batch says that there is nothing new: wait a moment before asking for the next.
    Poison is left out. A trimmed log gives what is left, unless ``from_seq`` lies in what is gone: ``JournalGap``.
    """
    log = recoverer.log
    key = process_key(process_id)
    partition = partition_of(key, log.partitions)
    wanted = _Wanted(from_seq, kinds, limit)
    marks = log.watermarks(partition)
    position, found = marks.low, False
    while not wanted.enough:
        try:
            for batch in log.read(partition, position, marks.high, {key}):
                logged = [one for record in batch.records if (one := _logged(recoverer, record)) is not None]
                found = found or bool(logged)
                wanted.refuse_gone(logged, marks.low, process_id, partition)
                if chosen := wanted.of(logged):
                    yield chosen
                if wanted.enough:
                    return
        except JournalGap:
            if found or position > marks.low or not recoverer.is_trimmed_since(partition, marks.low):
                raise
            marks = log.watermarks(partition)  # nothing was given yet: what is left now is what there is
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


def newest(recoverer: Recoverer, process_id: str, is_meant: Callable[[Entry], bool]) -> Logged | None:
    """Return the newest entry of the process that ``is_meant``; None where the log has none, or has it no more. Blocks.

    Reads the partition backwards, in windows that grow: what is near the end is found without reading the rest.
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
            for record in batch.records
            if (one := _logged(recoverer, record)) is not None and is_meant(one.entry)
        ]
        if found:
            return found[-1]
        stop, width = start, width * 2
    return None


def _logged(recoverer: Recoverer, record: Record) -> Logged | None:
    log = recoverer.log
    try:
        return Logged(record.offset, record.timestamp_ms, entry_of(record, log.codec, log.partitions))
    except UndecodableRecord as exc:
        recoverer.keep_poison(record, exc)
        return None


class _Wanted:
    """Which entries somebody asked for, and how many are still to come."""

    def __init__(self, from_seq: int | None, kinds: Collection[str] | None, limit: int | None) -> None:
        self._from_seq = from_seq
        self._begun = from_seq is None
        self._kinds = None if kinds is None else frozenset(kinds)
        self._left = limit

    @property
    def enough(self) -> bool:
        """Whether nothing more is wanted."""
        return self._left is not None and self._left <= 0

    def of(self, logged: list[Logged]) -> list[Logged]:
        """Those of ``logged`` that are wanted."""
        if not self._begun:
            logged = self._from_first(logged)
        if self._kinds is not None:
            logged = [one for one in logged if not self._kinds.isdisjoint(_kinds_of(one.entry))]
        if self._left is not None:
            logged = logged[: self._left]
            self._left -= len(logged)
        return logged

    def refuse_gone(self, logged: list[Logged], low: int, process_id: str, partition: int) -> None:
        """Raise if the first seq there is comes after the first one that was asked for, since the log was trimmed."""
        if self._begun or low == 0 or self._from_seq is None:
            return
        first = next((one.entry.seq for one in logged if one.entry.seq is not None), None)
        if first is not None and first > self._from_seq:
            facts = {"process_id": process_id, "partition": partition, "low": low, "from_seq": self._from_seq}
            raise JournalGap("entries that were asked for are gone from the log", hint=None, **facts)

    def _from_first(self, logged: list[Logged]) -> list[Logged]:
        assert self._from_seq is not None
        for index, one in enumerate(logged):
            if one.entry.seq is not None and one.entry.seq >= self._from_seq:
                self._begun = True
                return logged[index:]
        return []


def _kinds_of(entry: Entry) -> tuple[str, ...]:
    body = entry.body
    return (entry.kind, body.kind) if isinstance(body, Custom) else (entry.kind,)
