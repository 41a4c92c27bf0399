"""Find out who sent a request: by a bearer token, by the cookie of a session, or by the loopback address alone."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING

from seekpoint.console.web.auth.sessions import BrowserSession, SessionSigner, new_session
from seekpoint.console.web.auth.tokens import bearer_token
from seekpoint.console.web.auth.user_identity import UserIdentity, role_named
from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from seekpoint.console.web.auth.tokens import TokenFile

_logger = logging.getLogger("seekpoint.console")


class Visitor:
    """The sender of a request, with the session if it is a browser."""

    def __init__(self, identity: UserIdentity | None, session: BrowserSession | None) -> None:
        self.identity = identity
        self.session = session
        """None: the request has a bearer token, so that no other site could have made a browser send it."""


class Authentication:
    """Knows the tokens and the key of the sessions. ``everybody`` is who it is without any authentication.

    ``provider_proof`` is what sessions name that began at the identity provider.
    """

    def __init__(
        self,
        *,
        cookie_name: str,
        tokens: TokenFile | None = None,
        everybody: UserIdentity | None = None,
        provider_proof: str | None = None,
        is_secure: bool = False,
    ) -> None:
        self.tokens = tokens
        self._everybody = everybody
        self._provider_proof = provider_proof
        self._cookie_name = cookie_name
        self._is_secure = is_secure
        self._own_key = secrets.token_bytes(32)
        self._ended: dict[str, int] = {}

    @property
    def has_sign_in(self) -> bool:
        """Return whether a browser has to sign in."""
        return self._everybody is None

    @property
    def signer(self) -> SessionSigner:
        """Return the signer of sessions. With tokens its key is in their file, so sessions outlive a restart."""
        return SessionSigner(self._own_key if self.tokens is None else self.tokens.session_key())

    def visitor(self, request: Request) -> Visitor:
        """Return who sent ``request``. Its identity is None for a wrong token and for an ended session."""
        token = bearer_token(request.headers.get("authorization", ""))
        if token is not None:
            return Visitor(None if self.tokens is None else self.tokens.identity_of(token), None)
        now = time.time()
        session = self.signer.session(request.cookies.get(self._cookie_name, ""), now)
        if session is None or self._is_ended(session.id):
            session = new_session(now)
        return Visitor(self._everybody or self._signed_in(session), session)

    def sign_in(self, token: str) -> BrowserSession | None:
        """Return a new session for a token; None if it is nobody's."""
        identity = None if self.tokens is None else self.tokens.identity_of(token)
        return None if identity is None else new_session(time.time(), identity.name, identity.proof)

    def sign_in_as(self, identity: UserIdentity) -> BrowserSession:
        """Return a new session for somebody whom the identity provider named."""
        return new_session(time.time(), identity.name, identity.proof, identity.role.title)

    def keep(self, response: Response, session: BrowserSession) -> None:
        """Send the cookie of ``session``. Scripts cannot read it.

        Of what other sites make a browser send, only a link to a page has it (``lax``). Pages change nothing, and every
        change needs the CSRF token.
        """
        response.set_cookie(
            self._cookie_name, self.signer.cookie(session), httponly=True, samesite="lax", secure=self._is_secure,
            path="/", max_age=max(0, session.expires_at - int(time.time())),
        )  # fmt: skip

    def end(self, session: BrowserSession) -> None:
        """End a session here, so that a copy of its cookie is worth nothing. Blocks.

        With tokens their file keeps it, for restarts and other consoles. Where it cannot be written, only this console
        does.
        """
        now = time.time()
        if self.tokens is not None:
            try:
                self.tokens.end_session(session.id, session.expires_at, now)
                return
            except InvalidSetting as error:
                _logger.warning("a restart brings back the session that %s ended: %s", session.name, error.message)
        lasting = {session_id: end for session_id, end in self._ended.items() if end > now}
        self._ended = lasting | {session.id: session.expires_at}

    def _is_ended(self, session_id: str) -> bool:
        return session_id in self._ended or (self.tokens is not None and self.tokens.is_ended(session_id))

    def forget(self, response: Response) -> None:
        """Remove the cookie."""
        response.delete_cookie(self._cookie_name, httponly=True, samesite="lax", secure=self._is_secure, path="/")

    def _signed_in(self, session: BrowserSession) -> UserIdentity | None:
        if session.name is None:
            return None
        if session.role is None:
            return None if self.tokens is None else self.tokens.identity_by_proof(session.name, session.proof)
        role = role_named(session.role)
        if role is None or session.proof != self._provider_proof:
            return None
        return UserIdentity(name=session.name, role=role, proof=session.proof)
