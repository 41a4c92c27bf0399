"""Dead letters: poison records, stored with their bytes and coordinates, once each however often they are read.

The compacted topic ``NAME.deadletters`` stores them as JSON under the key ``TOPIC:PARTITION:OFFSET``. ``key`` and
``value`` are base64, since poison may be any bytes.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import orjson

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    JournalMismatch,
    LimitExceeded,
    Retryable,
    SeekpointError,
    TooManyDeadLetters,
    UndecodableRecord,
)
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import LogReader, Record, Table

_logger = logging.getLogger("seekpoint.consumers")


class DeadLetter(FrozenStruct, frozen=True, kw_only=True):
    """One poison record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """The record's timestamp."""
    key: bytes | None
    value: bytes | None
    error: str
    """Why the record is poison."""
    seen_at: str
    """When a reader first read it: ISO 8601, UTC."""

    @property
    def place(self) -> str:
        """The record's coordinates, ``TOPIC:PARTITION:OFFSET``."""
        return f"{self.topic}:{self.partition}:{self.offset}"

    def to_bytes(self) -> bytes:
        """Encode the letter as JSON, bytes in base64."""
        return orjson.dumps({**asdict(self), "key": _to_text(self.key), "value": _to_text(self.value)})

    @classmethod
    def from_bytes(cls, data: bytes) -> DeadLetter:
        """Decode a letter. Raises ``JournalMismatch`` if ``data`` is none."""
        try:
            raw: dict[str, Any] = orjson.loads(data)
            return cls(**{**raw, "key": _to_bytes(raw["key"]), "value": _to_bytes(raw["value"])})
        except (ValueError, TypeError, KeyError) as exc:
            raise JournalMismatch("a record of the dead letter topic is no dead letter", found=data[:80]) from exc


class DeadLetters:
    """The dead letters of a journal; ``add`` adds those of ``topic``. Thread safe; blocks."""

    def __init__(
        self, log: LogReader, settings: Settings, clock: Callable[[], float] = time.monotonic, topic: str = "journal"
    ) -> None:
        self._log = log
        self._settings = settings
        self._clock = clock
        self._topic = settings.topic_name(topic)
        self._lock = threading.Lock()
        self._known: set[str] | None = None
        self._recent: deque[float] = deque()

    def add(self, record: Record, error: SeekpointError, *, reactor: str | None = None) -> SeekpointError | None:
        """Write a dead letter for ``record`` unless there is one. Return why that failed: a reader goes on without it.

        A letter of a ``reactor`` has the topic ``NAME.journal#REACTOR``: each reactor may have one for the same record.
        Raises ``TooManyDeadLetters`` after more than ``dead_letters_max`` new ones within ``dead_letter_window_s``.
        """
        letter = self._letter(record, error, reactor)
        with self._lock:
            if self._known is not None and letter.place in self._known:
                return None
            try:
                if self._known is None:
                    self._known = {key.decode(errors="replace") for key, _ in self._table.stream()}
                if letter.place in self._known:
                    return None
                self._count(letter)
                self._table.put(letter.place.encode(), letter.to_bytes())
            except (Retryable, LimitExceeded) as exc:
                _logger.warning("a dead letter could not be written: %s", exc)
                return exc
            self._known.add(letter.place)
        _logger.warning("dead letter %s: %s", letter.place, letter.error)
        return None

    def stream(self) -> Iterator[DeadLetter]:
        """Yield all letters in the order in which they were written. None stays in memory: each may be large."""
        for _, value in self._table.stream():
            yield DeadLetter.from_bytes(value)

    def list(self) -> list[DeadLetter]:
        """Return all letters, sorted by their coordinates."""
        return sorted(self.stream(), key=lambda letter: (letter.topic, letter.partition, letter.offset))

    def count(self) -> int:
        """Return the number of letters."""
        return sum(1 for _ in self._table.stream())

    def get(self, place: str) -> DeadLetter | None:
        """Return the letter with these coordinates (``TOPIC:PARTITION:OFFSET``); None if there is none."""
        found = (value for key, value in self._table.stream() if key == place.encode())
        data = next(found, None)
        return None if data is None else DeadLetter.from_bytes(data)

    @property
    def _table(self) -> Table:
        return self._log.table("deadletters")

    def _letter(self, record: Record, error: SeekpointError, reactor: str | None) -> DeadLetter:
        return DeadLetter(
            topic=self._topic if reactor is None else f"{self._topic}#{reactor}",
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            error=self._settings.scrub(error.message),
            seen_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def _count(self, letter: DeadLetter) -> None:
        now, window_s = self._clock(), self._settings.dead_letter_window_s
        while self._recent and now - self._recent[0] >= window_s:
            self._recent.popleft()
        if len(self._recent) >= self._settings.dead_letters_max:
            raise TooManyDeadLetters(
                f"more than {self._settings.dead_letters_max} dead letters in {window_s:g} s",
                topic=letter.topic,
                partition=letter.partition,
                offset=letter.offset,
                newest=letter.error,
            )
        self._recent.append(now)


class PoisonCollector:
    """Writes a dead letter for each poison record of a scan. ``notes`` says which could not be written."""

    def __init__(
        self,
        add_dead_letter: Callable[[Record, UndecodableRecord], SeekpointError | None],
        notes: Iterable[str] = (),
    ) -> None:
        self._add_dead_letter = add_dead_letter
        self.notes: dict[str, None] = dict.fromkeys(notes)

    def add(self, record: Record, error: UndecodableRecord) -> None:
        """Write a dead letter for ``record``, or a note if that fails. Raises ``TooManyDeadLetters``."""
        failure = self._add_dead_letter(record, error)
        if failure is not None:
            self.notes[f"dead letters could not be written: {failure.message}"] = None


def _to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
