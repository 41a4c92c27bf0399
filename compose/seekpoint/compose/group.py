"""The process group of a cluster that must end with its starter. A watchdog leads the group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

_WATCHDOG = Path(__file__).with_name("watchdog.py")


class Group:
    """A process group that ends with this process, even after SIGKILL. Children join it by ``id``.

    It does not depend on the thread that created it, unlike PR_SET_PDEATHSIG. ``remove`` is a directory to delete at
    the end.
    """

    def __init__(self, remove: Path | None = None) -> None:
        command = [sys.executable, "-I", "-S", str(_WATCHDOG), str(os.getpid())]
        self._watchdog = subprocess.Popen(
            [*command, *([str(remove)] if remove else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self.id = self._watchdog.pid

    def close(self) -> None:
        """Kill the group, including the watchdog. Idempotent."""
        if self._watchdog.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.id, signal.SIGKILL)
            self._watchdog.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
