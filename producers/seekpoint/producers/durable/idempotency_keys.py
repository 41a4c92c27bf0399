"""The idempotency keys of calls: each attempt, each owner and each retry of a call gets the same one."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from seekpoint.schemas.folding.attempt_rules import HASHED_KEY_PREFIX

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Session
    from seekpoint.schemas.state.calls import Call

_CHARACTERS_MAX = 255
"""The longest key that payment services accept (Stripe)."""


def call_identity(session: Session, key: str) -> str:
    """Return the text that names the call ``key`` of a process in ids derived from it: of children, cancels, writes."""
    times = session.times_forgotten(key)
    return f"{session.process_id}/{key}{f'~{times}' if times else ''}"


def idempotency_key(session: Session, key: str, record: Call | None = None) -> str:
    """Return the idempotency key of the call ``key`` of a process: printable ASCII, at most 255 characters.

    A call with a ``record`` keeps the key that it began with, which older versions did not keep short and ASCII.
    """
    identity = call_identity(session, key)
    if record is not None:
        return str(record.facts.get("idempotency_key") or identity)
    return portable_key(identity)


def portable_key(identity: str) -> str:
    """Return ``identity`` if it can be a key as it is, else a key made of its hash.

    >>> portable_key("order-4711/refund:1")
    'order-4711/refund:1'
    >>> portable_key("fall-müller/refund:1")
    'seekpoint-sha256:479a2d2a8ba480e1890faadb3bc63fb09bcfb15d97aa1f6fa67c8dcc41808ed8'
    """
    is_header = identity.isascii() and identity.isprintable() and identity == identity.strip()
    if is_header and 0 < len(identity) <= _CHARACTERS_MAX:
        return identity
    return f"{HASHED_KEY_PREFIX}{sha256(identity.encode()).hexdigest()}"
