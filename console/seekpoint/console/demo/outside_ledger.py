"""What outsiders write down: the model's bill, and each node's notes of what it was acknowledged.

Files of JSON lines that only grow, each line on the disk before its writer goes on. None of it goes through Seekpoint:
the checker compares the journal with it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import orjson

from seekpoint.schemas.errors import OperatorRequired

__all__ = ["AppendOnlyFile", "BilledCall", "Ended", "FileTail", "Note", "Opened", "Receipt", "read_calls", "read_notes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledCall:
    """A line of the model's bill: written before it begins to think, so that an unfinished call is billed too."""

    call_id: str
    case: str
    turn: int
    digest: str
    """Of the conversation it was asked with."""
    node: str
    pid: int
    at: float
    """Seconds since 1970, as everywhere here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A node holds a case: the state it found, as of which offset, and the report of the recovery."""

    WHAT: ClassVar[str] = "opened"
    case: str
    node: str
    at: float
    epoch: int
    seq: int
    offset: int
    hash: str
    model_calls_done: int
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An entry that was acknowledged to a node; ``call_id`` where it is the result of a model call."""

    WHAT: ClassVar[str] = "acknowledged"
    case: str
    node: str
    at: float
    seq: int
    offset: int
    kind: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A node holds a case no longer: ``finished``, ``fenced``, ``parked`` (a person is needed) or ``failed``."""

    WHAT: ClassVar[str] = "ended"
    case: str
    node: str
    at: float
    how: str
    detail: str = ""


Note: TypeAlias = Opened | Receipt | Ended
_NOTES: dict[str, type[Opened] | type[Receipt] | type[Ended]] = {kind.WHAT: kind for kind in (Opened, Receipt, Ended)}


class AppendOnlyFile:
    """A file that only grows, a line at a time; several processes may share it. Blocks for an fsync a line."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def bill(self, call: BilledCall) -> None:
        """Write a call down."""
        self._append(orjson.dumps(call))

    def note(self, note: Note) -> None:
        """Write a note down."""
        self._append(orjson.dumps({"what": note.WHAT, "note": note}))

    def _append(self, line: bytes) -> None:
        os.write(self._fd, line + b"\n")  # one call: lines of several writers never mix
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; again is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileTail:
    """Follows such a file: each ``read`` gives the whole lines that came since. A missing file has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> list[Any]:
        """The new lines, parsed. Raises ``OperatorRequired`` for one that is no JSON."""
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
                "the demo's own records are damaged", file=str(self._path), hint="run it again"
            ) from exc


def read_calls(tail: FileTail) -> list[BilledCall]:
    """The calls that were billed since the last look."""
    return [BilledCall(**raw) for raw in tail.read()]


def read_notes(tails: Sequence[FileTail]) -> list[Note]:
    """The notes of all nodes since the last look; each node's in its order."""
    return [_NOTES[raw["what"]](**raw["note"]) for tail in tails for raw in tail.read()]
