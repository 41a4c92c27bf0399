"""The operating system's process of a node, so that another node on the same host can see that it died.

This is a hint, as heartbeats are (rule O6): the log alone decides who owns a process of the journal. Death cannot be
seen without Linux's ``/proc``, nor from another host or container. There a node counts as dead only after its heartbeat
stood still for a while.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache

from seekpoint.schemas.frozen_struct import FrozenStruct

_GONE = ("Z", "X", "x")
"""The states of a zombie and of a dead process. A stopped one (``T``) may continue."""


class HostProcess(FrozenStruct, frozen=True):
    """A process: the host's name and boot id, the namespaces of its id, its id, and its start in ticks.

    The system reuses ids, but not with the same start.
    """

    host: str
    namespaces: str
    pid: int
    started: int


def this_process() -> HostProcess | None:
    """Return the calling process; None where the system does not show it."""
    try:
        return _process(os.getpid())
    except (OSError, ValueError, LookupError):  # no file can be opened any more: the next heartbeat tries again
        return None


@lru_cache(maxsize=1)
def _process(pid: int) -> HostProcess:
    where = _here(pid)
    seen = None if where is None else _seen(pid)
    if where is None or seen is None:
        raise LookupError(pid)
    return HostProcess(*where, pid, seen[1])


def has_died(process: HostProcess | None) -> bool:
    """Return whether ``process`` is known to have died; False where that cannot be seen from here."""
    if process is None or _here(os.getpid()) != (process.host, process.namespaces):
        return False
    try:
        seen = _seen(process.pid)
        if seen is None:
            return not _exists(process.pid)  # /proc may hide the processes of other users
    except (OSError, ValueError, IndexError, OverflowError):  # OverflowError: the id is too large for the system
        return False
    return seen[0] or seen[1] != process.started


@lru_cache(maxsize=1)
def _here(pid: int) -> tuple[str, str] | None:
    """Return host and namespaces of the calling process; None where ``/proc`` does not show its namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot_id = file.read().strip()
        if not boot_id or os.readlink("/proc/self") != str(pid):
            return None
        pids = os.readlink("/proc/self/ns/pid")
        times = os.readlink("/proc/self/ns/time") if os.path.lexists("/proc/self/ns/time") else ""
    except OSError:
        return None
    return f"{socket.gethostname()} {boot_id}", f"{pids} {times}"


def _seen(pid: int) -> tuple[bool, int] | None:
    """Return whether the process is a zombie or dead, and its start; None if ``/proc`` does not show it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    threads = int(fields[17])  # the main thread may end before the others do
    return fields[0].decode() in _GONE and threads <= 1, int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
