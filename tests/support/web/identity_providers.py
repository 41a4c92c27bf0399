"""A small OpenID provider that serves on this machine, signs with real keys, and can be told to misbehave."""

from __future__ import annotations

import json
import re
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

__all__ = [
    "CLIENT_ID",
    "CLIENT_SECRET",
    "IdentityProvider",
    "identity_provider",
    "refusal",
    "settings_file",
    "sign_in_at_provider",
    "to_provider",
    "way_back",
]

CLIENT_ID = "seekpoint-console"
CLIENT_SECRET = "s3cr3t:with/signs"


_FIRST_KEY = RSAKey.generate_key(2048, auto_kid=False).as_dict(private=True)


class IdentityProvider:
    """A provider with one person. Its attributes say who that is, and what is wrong with its answers."""

    def __init__(self) -> None:
        self.url = ""
        self.claims: dict[str, Any] = {
            "sub": "u-17", "email": "ann@example.com", "email_verified": True, "groups": ["staff", "support"],
        }  # fmt: skip
        self.key: Any = RSAKey.import_key(_FIRST_KEY, {"kid": "first", "use": "sig"})
        self.published = [self.key]
        self.algorithm = "RS256"
        self.change_claims: Callable[[dict[str, Any]], object] = lambda claims: None
        self.make_token: Callable[[dict[str, Any]], str] = self.signed
        self.description: dict[str, Any] = {}
        """What differs from the usual description."""
        self.is_down = False
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: list[str] = []
        self.refused: list[str] = []

    def rotate(self) -> None:
        """Sign with a new key, and withdraw the old one."""
        self.key = ECKey.generate_key("P-256", {"kid": "second", "use": "sig"})
        self.published = [self.key]
        self.algorithm = "ES256"

    def signed(self, claims: dict[str, Any]) -> str:
        """Return a token with these claims."""
        return jwt.encode({"alg": self.algorithm, "kid": self.key.kid}, claims, self.key, [self.algorithm])

    # --- what it answers -------------------------------------------------------------------------------------------
    def described(self) -> dict[str, Any]:
        return {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize?tenant=1",
            "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.algorithm], **self.description,
        }  # fmt: skip

    def asked_to_sign_in(self, query: dict[str, str]) -> str:
        """Return the page on which the person signs in: its link leads back with a code."""
        assert (query["client_id"], query["response_type"], query["code_challenge_method"], query["tenant"]) == (
            CLIENT_ID, "code", "S256", "1",
        )  # fmt: skip
        code = f"code-{len(self.codes)}-{sha256(query['state'].encode()).hexdigest()}"
        self.codes[code] = query
        back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"
        icon = '<link rel="icon" href="data:,">'
        return f'<!doctype html><title>Provider</title>{icon}<a id="allow" href="{escape(back)}">I am ann</a>'

    def exchanged(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Take a code once, from the client with the secret and the verifier."""
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        pair = b64decode(authorization.removeprefix("Basic ")).decode()
        right = f"{CLIENT_ID}:{urlencode({'': CLIENT_SECRET})[1:]}"
        if (
            asked is None
            or pair != right
            or challenge != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
            or form["grant_type"] != "authorization_code"
        ):
            self.refused.append("code" if asked is None else "client, verifier or address")
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= self.claims
        self.change_claims(claims)
        token = self.make_token(claims)
        self.tokens.append(token)
        return 200, {"access_token": "access-17", "token_type": "Bearer", "id_token": token}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Serve a provider until the block ends."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        timeout = 1.0  # a browser opens connections that it never uses

        def do_GET(self) -> None:
            where = urlsplit(self.path)
            if provider.is_down:
                self._answer(503, "text/plain", b"")
            elif where.path == "/.well-known/openid-configuration":
                self._answer(200, "application/json", json.dumps(provider.described()).encode())
            elif where.path == "/keys":
                keys = [{"kty": "future", "kid": "x"}, *(key.as_dict(private=False) for key in provider.published)]
                self._answer(200, "application/json", json.dumps({"keys": keys}).encode())
            elif where.path == "/authorize":
                self._answer(200, "text/html", provider.asked_to_sign_in(_single(where.query)).encode())
            else:
                self._answer(404, "text/plain", b"")

        def do_POST(self) -> None:
            form = _single(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, answer = provider.exchanged(form, self.headers.get("Authorization", ""))
            self._answer(status, "application/json", json.dumps(answer).encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="identity provider")
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


_SETTINGS = """
issuer = "{issuer}"
client_id = "seekpoint-console"
client_secret_file = "secret"
[roles]
admin = ["platform"]
operator = ["support"]
viewer = ["staff"]
"""


def settings_file(folder: Path, provider: IdentityProvider, before: str = "") -> Path:
    """Write the file of a console for this provider, with further lines before the others."""
    (folder / "secret").write_text(f"{CLIENT_SECRET}\n")
    path = folder / "oidc.toml"
    path.write_text(before + _SETTINGS.format(issuer=provider.url))
    return path


def to_provider(client: httpx.Client, target: str = "/processes?agent=clerk") -> str:
    """Return the address of the provider to which the console sends a browser."""
    answer = client.get("/sign-in/oidc", params={"next": target})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def way_back(client: httpx.Client, target: str = "/processes?agent=clerk") -> str:
    """Return the address to which the provider sends the browser after the person has signed in there."""
    page = httpx.get(to_provider(client, target)).text
    return str(re.findall(r'id="allow" href="([^"]*)"', page)[0]).replace("&amp;", "&")


def sign_in_at_provider(client: httpx.Client) -> httpx.Response:
    """Return what the console answers to somebody who comes back from the provider."""
    return client.get(way_back(client))


def refusal(answer: httpx.Response) -> str:
    """Return what the page of a refused sign-in says. It has set no session."""
    assert answer.status_code in (403, 502), answer.text
    assert "set-cookie" not in answer.headers
    return str(re.findall(r"<h1>(.*?)</h1>", answer.text)[0])
