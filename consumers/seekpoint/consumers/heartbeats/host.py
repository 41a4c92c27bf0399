"""The operating system's process that a node runs in, so that another node beside it can see that it died.

A hint, as heartbeats are (rule O6): who owns a process of the journal is decided by the log alone. Where it is not
certain, nothing is told: without Linux's ``/proc``, from another host or another container, a heartbeat has to stand
still first.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

from seekpoint.schemas.dataclass import dataclass

__all__ = ["HostProcess", "has_died", "this_process"]

_GONE = ("Z", "X", "x")
"""A zombie and a dead process. One that is stopped (``T``) may go on."""


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process: the host by name and by its kernel's random boot id, the namespaces that its numbers count in, its
    id there, and when it started, in ticks. Ids are used again, but not with the same start."""

    host: str
    namespaces: str
    pid: int
    started: int


def this_process() -> HostProcess | None:
    """The process that asks; None where the system does not tell."""
    pid = os.getpid()
    where = _here(pid)
    try:
        seen = None if where is None else _seen(pid)
    except (OSError, ValueError, IndexError):  # no file may be opened any more: a heartbeat goes out without it
        return None
    return None if where is None or seen is None else HostProcess(*where, pid, seen[1])


def has_died(process: HostProcess | None) -> bool:
    """Whether ``process`` is known to have died; False where nobody can tell from here."""
    if process is None or _here(os.getpid()) != (process.host, process.namespaces):
        return False
    try:
        seen = _seen(process.pid)
        if seen is None:
            return not _exists(process.pid)  # a /proc may hide what is another user's
    except (OSError, ValueError, IndexError, OverflowError):  # the last: of a number that no process has
        return False
    return seen[0] or seen[1] != process.started


@lru_cache(maxsize=1)
def _here(pid: int) -> tuple[str, str] | None:
    """Host and namespaces of the process ``pid``, which asks; None where ``/proc`` does not show its own namespace."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if not boot_id or os.readlink("/proc/self") != str(pid):
            return None
        pids = os.readlink("/proc/self/ns/pid")
        times = os.readlink("/proc/self/ns/time") if os.path.lexists("/proc/self/ns/time") else ""
    except OSError:
        return None
    return f"{socket.gethostname()} {boot_id}", f"{pids} {times}"


def _seen(pid: int) -> tuple[bool, int] | None:
    """Whether the process ``pid`` has ended and only waits to be noticed, and its start; None: it is not shown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    threads = int(fields[17])  # a main thread may end before the others: the process lives
    return fields[0].decode() in _GONE and threads <= 1, int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
