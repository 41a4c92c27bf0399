"""The process group of a cluster that shall not outlive its starter, led by its watchdog."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["Group"]

_WATCHDOG = Path(__file__).with_name("watchdog.py")


class Group:
    """A process group that dies with this process, also by SIGKILL; ``id`` is what children are to join.

    Not tied to the thread that made it (as PR_SET_PDEATHSIG would be). ``remove`` is a directory to delete afterwards.
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
        """Kill what is left of the group, the watchdog included. Again is fine."""
        if self._watchdog.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.id, signal.SIGKILL)
            self._watchdog.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
