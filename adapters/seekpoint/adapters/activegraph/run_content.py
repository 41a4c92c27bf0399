"""The events of one run as the records of its process have them: pure, without a node.

A record has one event or several. An event that is too long for one record is in several: parts, then the record that
ends it. Events are numbered 1, 2, 3, ... in the order in which they were written. A number is never used again, also
not after a truncation. So the number of the newest event tells whether a run is as a writer saw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict
from uuid import uuid4

EVENTS_KIND, PART_KIND, TRUNCATED_KIND = "activegraph_events", "activegraph_part", "activegraph_truncated"
KINDS = frozenset({EVENTS_KIND, PART_KIND, TRUNCATED_KIND})

_RECORD_CHARACTERS = 200_000
"""The texts of one record together: in JSON within JSON at most 4 bytes for each character, so within 1 MiB."""
_RECORD_EVENTS = 500


class Row(TypedDict):
    """An event as ActiveGraph's ``encode_event`` gives it: the payload is JSON text."""

    id: str
    type: str
    payload: str
    actor: str | None
    frame_id: str | None
    caused_by: str | None
    timestamp: str


class StoredEvent(NamedTuple):
    """An event, and where it is."""

    number: int
    offset: int
    """The offset of the first entry that has a part of it."""
    first_number: int
    """The number of the first event in the record that ends it."""
    row: Row


class Archive(NamedTuple):
    """The archived part of a run: the events before ``before``, which only ``iter_archived`` reads."""

    before: int = 1
    size: int = 0
    """How many events are in it."""
    head: int = 0
    """The number of the newest event in the archive; 0: there is none."""
    after_offset: int | None = None
    """The offset behind which the other events are; None: at the beginning."""
    first_number: int = 1
    """The number of the first event behind ``after_offset``."""

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> Archive:
        """Return the archive that a context value describes."""
        return cls() if value is None else cls(*(value[name] for name in cls._fields))


class RunContent:
    """The events of a run that are not in its archive."""

    def __init__(self, archive: Archive | None = None) -> None:
        self.archive = archive = archive or Archive()
        self.events: list[StoredEvent] = []
        self.by_id: dict[str, StoredEvent] = {}
        self.dropped: list[list[StoredEvent]] = []
        """The events that each truncation has dropped."""
        self.next_number = archive.first_number
        self._parts: dict[str, tuple[int, list[str]]] = {}

    @property
    def head(self) -> int:
        """Return the number of the newest event; 0: the run has none."""
        return self.events[-1].number if self.events else self.archive.head

    @property
    def head_id(self) -> str | None:
        """Return the id of the newest event; None: the run has none outside of its archive."""
        return self.events[-1].row["id"] if self.events else None

    @property
    def retained(self) -> int:
        """Return how many events the run has, those in the archive included."""
        return len(self.events) + self.archive.size

    def apply(self, kind: str, payload: Mapping[str, Any], offset: int) -> None:
        """Apply a record of the process."""
        if kind == PART_KIND:
            self._parts.setdefault(payload["part_of"], (offset, []))[1].append(payload["text"])
        elif kind == TRUNCATED_KIND:
            self.truncate(payload["after"])
        else:
            begins, parts = self._parts.pop(payload.get("name", ""), (offset, []))
            self.add([_whole(row, parts) for row in payload["events"]], begins)

    def add(self, rows: Sequence[Row], offset: int) -> None:
        """Add the events of one record, whose first part has the offset."""
        first = self.next_number
        for number, row in enumerate(rows, first):
            if number >= self.archive.before:
                event = StoredEvent(number, offset, first, row)
                self.events.append(event)
                self.by_id[row["id"]] = event
        self.next_number = first + len(rows)

    def truncate(self, after: int) -> None:
        """Drop the events after a number."""
        kept = len(self.events)
        while kept and self.events[kept - 1].number > after:
            kept -= 1
        dropped = self.events[kept:]
        del self.events[kept:]
        for event in dropped:
            del self.by_id[event.row["id"]]
        self.dropped.append(dropped)

    def archived(self, before: int, end_offset: int) -> Archive:
        """Return the archive once the events before a number are in it; the run's newest entry is at the offset."""
        kept = [event for event in self.events if event.number >= before]
        moved = self.events[: len(self.events) - len(kept)]
        if not moved:
            return self.archive
        after, first = (kept[0].offset - 1, kept[0].first_number) if kept else (end_offset, self.next_number)
        return Archive(moved[-1].number + 1, self.archive.size + len(moved), moved[-1].number, after, first)

    def take(self, archive: Archive) -> None:
        """Leave out what is in the archive now."""
        self.archive = archive
        kept = [event for event in self.events if event.number >= archive.before]
        self.events, self.by_id = kept, {event.row["id"]: event for event in kept}


def payloads_of(rows: Sequence[Row]) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield kind and payload of the records that events become, and how many of the events are written with each."""
    batch: list[Row] = []
    width = 0
    for row in rows:
        length = len(row["payload"]) + 200
        if batch and (width + length > _RECORD_CHARACTERS or len(batch) == _RECORD_EVENTS):
            yield EVENTS_KIND, {"events": batch}, len(batch)
            batch, width = [], 0
        if length > _RECORD_CHARACTERS:
            yield from _in_parts(row)
        else:
            batch.append(row)
            width += length
    if batch:
        yield EVENTS_KIND, {"events": batch}, len(batch)


def _in_parts(row: Row) -> Iterator[tuple[str, dict[str, Any], int]]:
    text, name = row["payload"], uuid4().hex
    starts = range(0, len(text), _RECORD_CHARACTERS)
    for start in starts[:-1]:
        yield PART_KIND, {"part_of": name, "text": text[start : start + _RECORD_CHARACTERS]}, 0
    last: dict[str, Any] = {**row, "payload": text[starts[-1] :]}
    yield EVENTS_KIND, {"events": [last], "name": name}, 1


def _whole(row: Mapping[str, Any], parts: Sequence[str]) -> Row:
    """Return the row of an event with the parts that came before its record."""
    whole: Row = {
        "id": row["id"], "type": row["type"], "payload": "".join([*parts, row["payload"]]), "actor": row["actor"],
        "frame_id": row["frame_id"], "caused_by": row["caused_by"], "timestamp": row["timestamp"],
    }  # fmt: skip
    return whole
