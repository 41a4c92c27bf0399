"""Whether the machine stood still: what a test that failed meanwhile says of the code is nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

__all__ = ["STALL_S", "Stalls"]

STALL_S = 0.3
"""A program that sleeps for a twentieth of a second is woken so much too late only where all of them are."""
_BEAT = """
import select, sys, time
last = time.monotonic()
while not select.select([sys.stdin], [], [], 0.05)[0]:
    now = time.monotonic()
    if now - last > 0.05 + float(sys.argv[1]):
        print(now - last, flush=True)
    last = now
"""


class Stalls:
    """A program beside the tests that sleeps and looks at the clock. It ends with whoever started it."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", _BEAT, str(STALL_S)]
        self.beat = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._seen = b""
        assert self.beat.stdout
        os.set_blocking(self.beat.stdout.fileno(), False)

    def forget(self) -> None:
        """What was does not count any more."""
        self._read()
        self._seen = b""

    def were_there(self) -> bool:
        """Whether the machine has stood still since."""
        time.sleep(2 * STALL_S)  # it tells of a moment once that is over
        self._read()
        return bool(self._seen)

    def close(self) -> None:
        """End it."""
        assert self.beat.stdin
        assert self.beat.stdout
        self.beat.stdin.close()
        self.beat.wait()
        self.beat.stdout.close()

    def _read(self) -> None:
        assert self.beat.stdout
        with contextlib.suppress(BlockingIOError):
            self._seen += self.beat.stdout.read() or b""
