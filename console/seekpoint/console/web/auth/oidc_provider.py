"""Talk to an identity provider: its description, its keys, and the exchange of a code for an ID token."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from seekpoint.console.web.auth.oidc_settings import OidcSettings, is_safe_address

_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 1_048_576
_DESCRIPTION_S = 600.0


class ProviderError(Exception):
    """The provider did not answer, or not as the standard says. The text holds nothing secret."""


class OidcProvider:
    """The provider of the settings. Its methods raise ``ProviderError``."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._opener = _opener()
        self._described: tuple[float, dict[str, Any]] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def description(self) -> dict[str, Any]:
        """Return the provider's own description, at most ten minutes old."""
        async with self._one_at_a_time:
            if self._described is None or time.monotonic() - self._described[0] > _DESCRIPTION_S:
                self._described = time.monotonic(), await asyncio.to_thread(self._read_description)
            return self._described[1]

    async def id_token(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Return the ID token for a code. The provider takes a code once."""
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier,
        }  # fmt: skip
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        description = await self.description()
        methods = description.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        own = self._settings
        if own.client_secret is None:
            form["client_id"] = own.client_id
        elif "client_secret_basic" in methods:
            pair = f"{quote_plus(own.client_id)}:{quote_plus(own.client_secret)}"
            headers["Authorization"] = "Basic " + b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": own.client_id, "client_secret": own.client_secret}
        request = Request(description["token_endpoint"], urlencode(form).encode(), headers)
        answer = await asyncio.to_thread(self._ask, request, "token endpoint")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("the token endpoint answered without an ID token")
        return token

    async def keys(self) -> dict[str, Any]:
        """Return the provider's keys as they are now, so that a new key counts and a withdrawn one does not."""
        address = (await self.description())["jwks_uri"]
        return await asyncio.to_thread(self._ask, Request(address), "address of its keys")

    def _read_description(self) -> dict[str, Any]:
        issuer = self._settings.issuer
        found = self._ask(Request(f"{issuer.rstrip('/')}/.well-known/openid-configuration"), "description")
        if found.get("issuer") != issuer:
            raise ProviderError("the description is that of another issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            address = found.get(name)
            if not isinstance(address, str) or not is_safe_address(address):
                raise ProviderError(f"the description has no {name} that starts with https://")
        return found

    def _ask(self, request: Request, what: str) -> dict[str, Any]:
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            with closing(error):
                raise ProviderError(f"the {what} answered with status {error.code}") from None
        except OSError as error:
            raise ProviderError(f"the {what} cannot be reached: {type(error).__name__}") from None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or len(content) > _ANSWER_BYTES_MAX:
            raise ProviderError(f"the {what} answered with something else than an object of JSON")
        return found


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects())
