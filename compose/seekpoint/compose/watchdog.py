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


def watch(parent: int) -> None:
    """Return when ``parent`` is gone: the pipe closes at once, unless a fork holds it; then the pid tells."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _CHECK_INTERVAL_S)
        if readable and not os.read(0, 1):
            return


def remove_when_dead(directory: str, group: int) -> None:
    """Leave the group, wait until nothing of it is left, and remove its data."""
    os.setsid()
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            time.sleep(0.05)
    shutil.rmtree(directory, ignore_errors=True)


def main(parent: int, directory: str | None = None) -> None:
    """Watch, then kill the own process group."""
    # A group orphaned with a paused member gets SIGHUP; a terminal's Ctrl-C is the parent's to handle.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgid(0)
    watch(parent)
    if directory and os.fork() == 0:
        remove_when_dead(directory, group)
    else:
        time.sleep(0.05 if directory else 0)  # let the child leave the group first
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3])
