"""Sign in with OpenID Connect: the authorization code flow with PKCE, a state and a nonce.

Nothing is kept on the server. A browser that begins gets a signed cookie with a random number. State, nonce and the
verifier of PKCE are computed from it with the key of the sessions. So only this browser can end what it began.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from starlette.responses import RedirectResponse, Response

from seekpoint.console.web.auth.oidc_provider import OidcProvider, ProviderError
from seekpoint.console.web.auth.oidc_tokens import TokenRefused, checked_claims, identity_in
from seekpoint.console.web.failures import BadRequest
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.requests import Request

    from seekpoint.console.web.auth.oidc_settings import OidcSettings
    from seekpoint.console.web.auth.sessions import SessionSigner
    from seekpoint.console.web.auth.user_identity import UserIdentity

__all__ = ["BEGIN_PATH", "CALLBACK_PATH", "OidcSignIn"]

BEGIN_PATH = "/sign-in/oidc"
CALLBACK_PATH = "/sign-in/callback"
_ATTEMPT_S = 600
_TARGET_CHARS_MAX = 1_500
_logger = logging.getLogger("seekpoint.console")


class SignInAttempt(FrozenStruct, frozen=True, kw_only=True):
    """The content of the cookie of a browser that is signing in."""

    id: str
    expires_at: int
    target: str
    """Where it wanted to go."""


class OidcSignIn:
    """Sends browsers to the provider, and finds out who comes back."""

    def __init__(
        self, settings: OidcSettings, cookie_name: str, signer: Callable[[], SessionSigner], *, is_secure: bool
    ) -> None:
        self.settings = settings
        self._provider = OidcProvider(settings)
        self._cookie_name = cookie_name
        self._signer = signer
        self._is_secure = is_secure

    @property
    def name(self) -> str:
        """Return the provider's name, as the button has it."""
        return urlsplit(self.settings.issuer).netloc

    async def begin(self, target: str) -> Response:
        """Send a browser to the provider. Raises ``BadRequest`` if that does not answer."""
        signer = self._signer()
        attempt = SignInAttempt(
            id=secrets.token_urlsafe(18), expires_at=int(time.time()) + _ATTEMPT_S,
            target=target if len(target) <= _TARGET_CHARS_MAX else "/",
        )  # fmt: skip
        challenge = urlsafe_b64encode(sha256(signer.derived("verifier", attempt.id).encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code", "client_id": self.settings.client_id, "redirect_uri": self._redirect_uri,
            "scope": " ".join(self.settings.scopes), "state": signer.derived("state", attempt.id),
            "nonce": signer.derived("nonce", attempt.id), "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }  # fmt: skip
        try:
            endpoint = (await self._provider.description())["authorization_endpoint"]
        except ProviderError as error:
            raise self._unavailable(error) from None
        response = RedirectResponse(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", 303)
        response.set_cookie(
            self._attempt_cookie(query["state"]), signer.sealed("attempt", attempt), max_age=_ATTEMPT_S, httponly=True,
            samesite="lax", secure=self._is_secure, path="/sign-in",
        )  # fmt: skip
        return response

    async def finish(self, request: Request) -> tuple[UserIdentity, str]:
        """Return who came back, and where to go. Raises ``BadRequest`` for everything that is not in order."""
        given, signer = request.query_params, self._signer()
        state = given.get("state", "")
        attempt = signer.opened("attempt", request.cookies.get(self._attempt_cookie(state), ""), SignInAttempt)
        if (
            attempt is None
            or attempt.expires_at <= time.time()
            or not hmac.compare_digest(signer.derived("state", attempt.id).encode(), state.encode("utf-8", "replace"))
        ):
            raise self._refused("this browser did not begin this sign-in here, or too long ago")
        if "error" in given or "code" not in given:
            said = given.get("error", "")
            raise self._refused(
                f"the identity provider said {said}" if re.fullmatch(r"[a-z_]{1,40}", said)
                else "the identity provider sent no code"
            )  # fmt: skip
        try:
            await self._check_issuer(given.get("iss"))
            verifier = signer.derived("verifier", attempt.id)
            token = await self._provider.id_token(given["code"], verifier, self._redirect_uri)
            keys = await self._provider.keys()
            nonce = signer.derived("nonce", attempt.id)
            claims = checked_claims(token, keys, self.settings, nonce, time.time())
            return identity_in(claims, self.settings), attempt.target
        except TokenRefused as error:
            raise self._refused(str(error)) from None
        except ProviderError as error:
            raise self._unavailable(error) from None

    def forget(self, request: Request, response: Response) -> None:
        """Remove the cookie of the attempt, so that its address is of no use any more."""
        name = self._attempt_cookie(request.query_params.get("state", ""))
        response.delete_cookie(name, httponly=True, samesite="lax", secure=self._is_secure, path="/sign-in")

    @property
    def _redirect_uri(self) -> str:
        return f"{self.settings.address}{CALLBACK_PATH}"

    def _attempt_cookie(self, state: str) -> str:
        """Return a name for each attempt: a browser may sign in in several windows at once."""
        return f"{self._cookie_name}_{re.sub('[^0-9a-f]', '', state)[:12]}"

    async def _check_issuer(self, given: str | None) -> None:
        description = await self._provider.description()
        is_required = description.get("authorization_response_iss_parameter_supported") is True
        if (given is not None or is_required) and given != self.settings.issuer:
            raise TokenRefused("the answer comes from another issuer")

    def _refused(self, reason: str) -> BadRequest:
        _logger.warning("refused a sign-in: %s", reason)
        return BadRequest(403, "SignInRefused", reason, f"sign in again at {self.settings.address}/sign-in")

    def _unavailable(self, error: ProviderError) -> BadRequest:
        _logger.warning("no sign-in is possible: %s", error)
        return BadRequest(
            502, "ProviderUnavailable", "the identity provider did not answer as it should",
            "try again; the console's log says more",
        )  # fmt: skip
