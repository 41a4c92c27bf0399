"""The ledger of a program that is killed: a line for each call outlives the program."""

from __future__ import annotations

import os
import sys
import time

__all__ = ["Ledger"]


class Ledger:
    """The ledger that ``PROGRAM JOURNAL LEDGER ...`` names. Make it once the program has imported what it needs."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._file: int | None = None

    def note(self, call: str) -> None:
        """Write the program, the call, and the seconds since the program could begin."""
        if self._file is None:
            self._file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, f"{os.getpid()} {call} {time.monotonic() - self._began:.4f}\n".encode())
