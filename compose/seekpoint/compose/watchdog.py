"""A process that outlives its parent by a moment: it kills the local cluster when the parent is gone, however it went.

Run as ``python watchdog.py PARENT_PID [DIRECTORY]`` with a pipe from the parent as its standard input. It leads the
process group of the cluster's parts. When the pipe closes, or the parent is another one, it kills the group, itself
included, and a child of it removes ``DIRECTORY`` (a temporary cluster's) afterwards. Imports nothing of Seekpoint: it
has to be up before the first part is.
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
_PATIENCE_S = 10.0


def watch(parent: int) -> None:
    """Return when ``parent`` is gone: the pipe closes at once, unless a fork holds it; then the pid tells."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _CHECK_INTERVAL_S)
        if readable and not os.read(0, 1):
            return


def remove_when_dead(directory: str, group: int, left: int) -> None:
    """Leave the group, say so on the pipe ``left``, wait until nothing of it is left, and remove its data."""
    os.setsid()
    os.write(left, b"1")
    deadline = time.monotonic() + _PATIENCE_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:  # a dead member that nobody reaps still counts
            os.killpg(group, 0)
            time.sleep(0.05)
    while os.path.exists(directory) and time.monotonic() < deadline + _PATIENCE_S:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


def main(parent: int, directory: str | None = None) -> None:
    """Watch, then kill the own process group."""
    # A group orphaned with a paused member gets SIGHUP; a terminal's Ctrl-C is the parent's to handle.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgid(0)
    watch(parent)
    if directory:
        leaving, left = os.pipe()
        if os.fork() == 0:
            remove_when_dead(directory, group, left)
            return
        select.select([leaving], [], [], _PATIENCE_S)  # the child has left the group, however busy the machine is
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3])
