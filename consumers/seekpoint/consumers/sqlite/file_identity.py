"""Whether the files that a connection uses are still those that their names stand for.

A program that writes to a file after somebody deleted or replaced it writes to nowhere: its entries are acknowledged,
and no other program ever sees them. The same is true of the write-ahead log and of SQLite's index of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from seekpoint.schemas.errors import JournalMismatch

_ENDINGS = ("", "-wal", "-shm")


class FileIdentity:
    """The identity of a journal's files, for the connection that writes."""

    def __init__(self, path: Path) -> None:
        real = os.path.realpath(path)
        self._files = [f"{real}{ending}" for ending in _ENDINGS]
        self._known: list[tuple[int, int]] | None = None

    def forget(self) -> None:
        """Take the files as they will be at the next check."""
        self._known = None

    def check(self) -> None:
        """Raise ``JournalMismatch`` if a file is gone, or another one than at first.

        Call it inside a transaction that writes: then all three files exist. It takes some microseconds.
        """
        found = [_identity(file) for file in self._files]
        if self._known is None:
            self._known = found
        elif found != self._known:
            at = next(at for at, one in enumerate(found) if one != self._known[at])
            raise JournalMismatch(
                "the file was replaced while it was used", file=self._files[at],
                hint="stop all programs that use it, look which file is the right one, and start them again",
            )  # fmt: skip


def is_immutable(path: Path) -> bool:
    """Return whether nobody can write the file: it lies on a read-only file system, and was closed before.

    SQLite has to be told, as it cannot make its other files there.
    """
    if not hasattr(os, "statvfs"):
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not os.path.exists(f"{os.path.realpath(path)}-wal")
    except OSError:
        return False


def _identity(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError as exc:
        raise JournalMismatch(
            f"the file was deleted or moved while it was used: {exc.strerror}", file=file,
            hint="stop all programs that use it, put it back or restore a backup, and start them again",
        ) from exc  # fmt: skip
    return found.st_dev, found.st_ino
