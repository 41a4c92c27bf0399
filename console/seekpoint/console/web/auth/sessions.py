"""Sessions of browsers: a signed cookie, and the CSRF token that belongs to it. Nothing is stored on the server."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["Session", "SessionSigner", "new_session"]

LIFETIME_S = 12 * 3600


class Session(FrozenStruct, frozen=True, kw_only=True):
    """The content of the cookie."""

    id: str
    expires_at: int
    """Seconds since 1970."""
    name: str | None = None
    """Who signed in; None: nobody did."""
    proof: str = ""
    """Which token it began with."""
    role: str | None = None
    """The role that an identity provider gave; None: the token's."""


def new_session(now: float, name: str | None = None, proof: str = "", role: str | None = None) -> Session:
    """Return a session that begins at ``now``, in seconds since 1970."""
    return Session(
        id=secrets.token_urlsafe(18), expires_at=int(now) + LIFETIME_S, name=name, proof=proof, role=role
    )  # fmt: skip


class SessionSigner:
    """Writes and checks cookies with a secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def cookie(self, session: Session) -> str:
        """Return the value of the session's cookie."""
        body = urlsafe_b64encode(msgspec.json.encode(session))
        return f"{body.decode()}.{self._mac(b'session:' + body)}"

    def session(self, cookie: str, now: float) -> Session | None:
        """Return the session of a cookie; None if it was not signed with this key or has ended."""
        body, _, mac = cookie.rpartition(".")
        signed = body.encode("ascii", "replace")
        if not hmac.compare_digest(self._mac(b"session:" + signed).encode(), mac.encode("utf-8", "replace")):
            return None
        found = msgspec.json.decode(urlsafe_b64decode(signed), type=Session)
        return found if found.expires_at > now else None

    def csrf_token(self, session: Session) -> str:
        """Return the token that a changing request of this session has to carry."""
        return self._mac(b"csrf:" + session.id.encode())

    def is_csrf_token(self, session: Session, presented: str) -> bool:
        """Return whether ``presented`` is that token."""
        return hmac.compare_digest(self.csrf_token(session).encode(), presented.encode("utf-8", "replace"))

    def _mac(self, text: bytes) -> str:
        return hmac.new(self._key, text, sha256).hexdigest()
