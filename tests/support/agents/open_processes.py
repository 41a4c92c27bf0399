"""The inside of an open process, for tests that look below its public calls."""

from __future__ import annotations

from seekpoint.producers import Process
from seekpoint.producers.log_session import LogSession
from seekpoint.producers.process import durable_side
from seekpoint.producers.writer.handle import Handle

__all__ = ["durable_side", "handle_of", "session_of"]


def session_of(process: Process) -> LogSession:
    """Return the session of a process that a node has opened."""
    session = durable_side(process).session
    assert isinstance(session, LogSession)
    return session


def handle_of(process: Process) -> Handle:
    """Return the writer's handle of a process that a node has opened."""
    return session_of(process)._handle
