"""Files that model and workers write outside of Seekpoint: the model's bill, and each worker's notes of what it did.

The files hold JSON lines and only grow. A line is on the disk before its writer continues. The checker compares the
journal with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import orjson

from seekpoint.schemas.errors import OperatorRequired


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledCall:
    """A line of the model's bill, written before the call begins, so that an unfinished call is on the bill too."""

    call_id: str
    case: str
    turn: int
    digest: str
    """The digest of the conversation that was sent."""
    node: str
    pid: int
    at: float = field(default_factory=time.time)
    """Seconds since 1970, as in all classes of this module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A note that a worker opened a case: the recovered state with its offset, and the report of the recovery."""

    WHAT: ClassVar[str] = "opened"
    case: str
    node: str
    at: float = field(default_factory=time.time)
    epoch: int
    seq: int
    offset: int
    hash: str
    model_calls_done: int
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A note that Kafka acknowledged an entry. ``call_id`` is set if the entry is the result of a model call."""

    WHAT: ClassVar[str] = "acknowledged"
    case: str
    node: str
    at: float = field(default_factory=time.time)
    seq: int
    offset: int
    kind: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A note that a worker left a case: ``finished``, ``fenced``, or ``stopped`` for another reason."""

    WHAT: ClassVar[str] = "ended"
    case: str
    node: str
    at: float = field(default_factory=time.time)
    how: str


Note: TypeAlias = Opened | Receipt | Ended
_NOTES: dict[str, type[Opened] | type[Receipt] | type[Ended]] = {kind.WHAT: kind for kind in (Opened, Receipt, Ended)}


class AppendOnlyFile:
    """A file that only grows, line by line. Several processes may share it. Each line blocks for an fsync."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def bill(self, call: BilledCall) -> None:
        """Append a call."""
        self._append(orjson.dumps(call))

    def note(self, note: Note) -> None:
        """Append a note."""
        self._append(orjson.dumps({"what": note.WHAT, "note": note}))

    def _append(self, line: bytes) -> None:
        os.write(self._fd, line + b"\n")  # one write per line: lines of several writers do not mix
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file. Further calls do nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileTail:
    """Follows an ``AppendOnlyFile``: each ``read`` returns the new complete lines. A missing file has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> list[Any]:
        """Return the new lines, parsed. Raises ``OperatorRequired`` for a line that is not JSON."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        try:
            return [orjson.loads(line) for line in whole.splitlines()]
        except ValueError as exc:
            raise OperatorRequired(
                "a file of the demo is damaged", file=str(self._path), hint="run the demo again"
            ) from exc


def read_calls(tail: FileTail) -> list[BilledCall]:
    """Return the calls that were billed since the last read."""
    return [BilledCall(**raw) for raw in tail.read()]


def read_notes(tails: Sequence[FileTail]) -> list[Note]:
    """Return the notes of all workers since the last read, in order for each worker."""
    return [_NOTES[raw["what"]](**raw["note"]) for tail in tails for raw in tail.read()]
