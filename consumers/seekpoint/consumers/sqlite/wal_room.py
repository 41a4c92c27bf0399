"""Room in the write-ahead log of a SQLite file: it is made longer before it has to be.

A commit that makes the file longer is synchronised with the file system's own records too, and takes twice as long.
So the log gets zeros behind its end, half a megabyte at a time. SQLite reads it up to the first frame that is not its
own, and zeros are none.
"""

from __future__ import annotations

import os
from pathlib import Path

_STEP_BYTES = 512 * 1024
_ENOUGH_BYTES = 4_200_000
"""What the log grows to before SQLite begins at its start again: 1,000 pages."""
_TRANSACTIONS = 50
"""How many small transactions fit into one step."""


class WalRoom:
    """The room in one file's log, for the connection that writes."""

    def __init__(self, path: Path) -> None:
        self._path = f"{os.path.realpath(path)}-wal"
        self._left = 0

    def make(self) -> None:
        """Make room now and then. Call it inside a transaction that writes: then nobody else writes to the log."""
        self._left -= 1
        if self._left > 0 or not hasattr(os, "pwrite"):
            return
        self._left = _TRANSACTIONS
        try:
            descriptor = os.open(self._path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:  # a transaction without room only takes longer
            return
        try:
            size = os.fstat(descriptor).st_size
            if size < _ENOUGH_BYTES:
                _append_zeros(descriptor, size)
        finally:
            os.close(descriptor)


def _append_zeros(descriptor: int, size: int) -> None:
    """Write zeros behind the end of the file, or leave it as it was: on a full disk the transaction needs the rest."""
    try:
        is_whole = os.pwrite(descriptor, bytes(_STEP_BYTES), size) == _STEP_BYTES
    except OSError:
        is_whole = False
    if not is_whole:
        os.ftruncate(descriptor, size)
