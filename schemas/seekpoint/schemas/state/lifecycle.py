"""The lifecycle of a process, and which step leads where."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Lifecycle(StrEnum):
    """A state in the life of a process. A member equals its text: ``Lifecycle.RUNNING == "running"``."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    AWAITING = "awaiting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


_L = Lifecycle
TRANSITIONS: Mapping[Lifecycle, frozenset[Lifecycle]] = {
    _L.CREATED: frozenset({_L.STARTING, _L.STOPPED}),
    _L.STARTING: frozenset({_L.RUNNING, _L.FAILED, _L.STOPPING}),
    _L.RUNNING: frozenset({_L.SUSPENDED, _L.STOPPING, _L.FAILED, _L.AWAITING}),
    _L.SUSPENDED: frozenset({_L.RUNNING, _L.STOPPING, _L.FAILED}),
    _L.AWAITING: frozenset({_L.RUNNING, _L.STOPPING, _L.FAILED}),
    _L.STOPPING: frozenset({_L.STOPPED, _L.FAILED}),
    _L.STOPPED: frozenset({_L.STARTING}),
    _L.FAILED: frozenset({_L.STARTING, _L.STOPPING}),
}


def may_follow(current: Lifecycle, target: str) -> bool:
    """Return whether a process may go from ``current`` to ``target``; False also for an unknown name."""
    return target in TRANSITIONS[current]
