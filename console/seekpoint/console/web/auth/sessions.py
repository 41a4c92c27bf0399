"""Sessions of browsers: a signed cookie, and the CSRF token that belongs to it. Nothing is stored on the server."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TypeVar

import msgspec

from seekpoint.schemas.frozen_struct import FrozenStruct, built

__all__ = ["BrowserSession", "SessionSigner", "new_session"]

T = TypeVar("T")

LIFETIME_S = 12 * 3600
PROVIDED_LIFETIME_S = 3600


class BrowserSession(FrozenStruct, frozen=True, kw_only=True):
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


def new_session(now: float, name: str | None = None, proof: str = "", role: str | None = None) -> BrowserSession:
    """Return a session that begins at ``now``, in seconds since 1970.

    One with a role of its own is short: the identity provider then says anew who it is.
    """
    lifetime_s = LIFETIME_S if role is None else PROVIDED_LIFETIME_S
    return BrowserSession(
        id=secrets.token_urlsafe(18), expires_at=int(now) + lifetime_s, name=name, proof=proof, role=role
    )  # fmt: skip


class SessionSigner:
    """Writes and checks cookies with a secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def cookie(self, session: BrowserSession) -> str:
        """Return the value of the session's cookie."""
        return self.sealed("session", session)

    def session(self, cookie: str, now: float) -> BrowserSession | None:
        """Return the session of a cookie; None if it was not signed with this key or has ended."""
        found = self.opened("session", cookie, BrowserSession)
        return found if found is not None and found.expires_at > now else None

    def sealed(self, purpose: str, value: object) -> str:
        """Return a value as a signed text, which only ``opened`` with the same purpose takes."""
        body = urlsafe_b64encode(msgspec.json.encode(value))
        return f"{body.decode()}.{self._mac(purpose.encode() + b':' + body)}"

    def opened(self, purpose: str, text: str, type_: type[T]) -> T | None:
        """Return the value of a signed text; None if it was not signed with this key for this purpose."""
        body, _, mac = text.rpartition(".")
        signed = body.encode("ascii", "replace")
        if not hmac.compare_digest(
            self._mac(purpose.encode() + b":" + signed).encode(), mac.encode("utf-8", "replace")
        ):
            return None
        try:
            return msgspec.json.decode(urlsafe_b64decode(signed), type=built(type_))
        except msgspec.DecodeError:  # another version of the console signed it
            return None

    def derived(self, purpose: str, identity: str) -> str:
        """Return a secret that only this key makes of ``identity``: 64 hexadecimal digits."""
        return self._mac(f"{purpose}:{identity}".encode())

    def csrf_token(self, session: BrowserSession) -> str:
        """Return the token that a changing request of this session has to carry."""
        return self.derived("csrf", session.id)

    def is_csrf_token(self, session: BrowserSession, presented: str) -> bool:
        """Return whether ``presented`` is that token."""
        return hmac.compare_digest(self.csrf_token(session).encode(), presented.encode("utf-8", "replace"))

    def _mac(self, text: bytes) -> str:
        return hmac.new(self._key, text, sha256).hexdigest()
