"""The idempotency keys of calls: each attempt, each owner and each retry of a call gets the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Session

__all__ = ["idempotency_key"]


def idempotency_key(session: Session, key: str) -> str:
    """Return the idempotency key of the call ``key`` of a process."""
    times = session.times_forgotten(key)
    return f"{session.process_id}/{key}{f'~{times}' if times else ''}"
