"""The dead letters that a page lists: the newest ones without their bytes, read again at most every few seconds."""

from __future__ import annotations

import time
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from seekpoint.console.services.facts.dead_letter_facts import key_text
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.recovery.dead_letters import DeadLetter

__all__ = ["LetterHead", "LetterIndex"]

_INTERVAL_S = 5.0
_HEADS_MAX = 10_000
_ERROR_CHARS_MAX = 500


class LetterHead(FrozenStruct, frozen=True, kw_only=True):
    """A dead letter without its bytes."""

    place: str
    """``TOPIC:PARTITION:OFFSET``; ``TOPIC#REACTOR:…`` of a reactor."""
    topic: str
    partition: int
    offset: int
    process_id: str | None
    """The process that the record's key names; None: the key is no process id."""
    key: str
    """The key as text, shortened."""
    bytes: int | None
    """The size of the value; None: it has none."""
    timestamp_ms: int
    """When the record was appended."""
    seen_at: str
    """When a reader first read it."""
    error: str
    """Why it is no entry, shortened."""


class LetterIndex:
    """Reads the dead letters of a journal. Thread safe; blocks."""

    def __init__(self, target: CommandTarget) -> None:
        self._target = target
        self._lock = Lock()
        self._read_at_s = float("-inf")
        self._heads: deque[LetterHead] = deque(maxlen=_HEADS_MAX)
        self._total = 0
        self.reads = 0
        """How often it read the topic."""

    def newest(self) -> tuple[list[LetterHead], int]:
        """Return at most 10,000 letters, the newest first, and the number of all. Raises ``JournalUnavailable``."""
        with self._lock:
            if time.monotonic() - self._read_at_s > _INTERVAL_S:
                self.reads += 1
                heads: deque[LetterHead] = deque(maxlen=_HEADS_MAX)
                total = 0
                for letter in self._target.dead_letters.stream():
                    heads.append(head_of(letter))
                    total += 1
                self._heads, self._total, self._read_at_s = heads, total, time.monotonic()
            return [*reversed(self._heads)], self._total


def head_of(letter: DeadLetter) -> LetterHead:
    """Return the letter without its bytes."""
    error = letter.error
    return LetterHead(
        place=letter.place, topic=letter.topic, partition=letter.partition, offset=letter.offset,
        process_id=_process_id(letter.key), key=key_text(letter.key),
        bytes=None if letter.value is None else len(letter.value), timestamp_ms=letter.timestamp_ms,
        seen_at=letter.seen_at, error=error if len(error) <= _ERROR_CHARS_MAX else f"{error[:_ERROR_CHARS_MAX]}…",
    )  # fmt: skip


def _process_id(key: bytes | None) -> str | None:
    from seekpoint.schemas.errors import InvalidName
    from seekpoint.schemas.values.process_ids import named_process_key

    try:
        text = "" if key is None else key.decode()
        return text if named_process_key(text) == key else None
    except (UnicodeDecodeError, InvalidName):
        return None
