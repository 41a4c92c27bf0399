"""A watchdog process that kills the local cluster when its parent has ended for any reason.

Run as ``python watchdog.py PARENT_PID [DIRECTORY]`` with a pipe from the parent as its standard input. It leads the
process group of the cluster's parts. When the pipe closes or the parent pid changes, it kills the group, including
itself, and a child process then deletes ``DIRECTORY`` of a temporary cluster. It imports nothing of Seekpoint, because
it must run before the first part starts.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time

_CHECK_INTERVAL_S = 0.5
_TIMEOUT_S = 10.0


def watch(parent: int) -> None:
    """Return when ``parent`` has ended. If a fork keeps the pipe open, the changed parent pid shows the end."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _CHECK_INTERVAL_S)
        if readable and not os.read(0, 1):
            return


def remove_when_dead(directory: str, group: int, left: int) -> None:
    """Leave the group, report this on the pipe ``left``, wait for the end of the group, and delete its data."""
    os.setsid()
    os.write(left, b"1")
    deadline = time.monotonic() + _TIMEOUT_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:  # an unreaped dead member still counts
            os.killpg(group, 0)
            time.sleep(0.05)
    while os.path.exists(directory) and time.monotonic() < deadline + _TIMEOUT_S:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


def main(parent: int, directory: str | None = None) -> None:
    """Watch the parent, then kill the own process group."""
    # An orphaned group with a paused member gets SIGHUP. The parent handles Ctrl-C of a terminal.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgid(0)
    watch(parent)
    if directory:
        leaving, left = os.pipe()
        if os.fork() == 0:
            remove_when_dead(directory, group, left)
            return
        select.select([leaving], [], [], _TIMEOUT_S)  # wait until the child has left the group
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3])
