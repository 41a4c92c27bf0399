"""What an attacker tries who may send a browser, or a provider's answer, to a console with OpenID Connect."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from consoles import Served
from identity_providers import (
    CLIENT_ID,
    IdentityProvider,
    refusal,
    sign_in_at_provider,
    way_back,
)


def _change(**claims: Any) -> Callable[[dict[str, Any]], object]:
    return lambda found: found.update(claims)


def _remove(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda found: found.pop(name)


_LONG_AGO = int(time.time()) - 7200

WRONG_CLAIMS = {
    "another nonce": (_change(nonce="f" * 64), "nonce"),
    "no nonce": (_remove("nonce"), "nonce"),
    "expired": (_change(exp=_LONG_AGO), "expired_token"),
    "no end": (_remove("exp"), "missing_claim"),
    "an end that is no number": (_change(exp="never"), "invalid_claim"),
    "not valid yet": (_change(nbf=_LONG_AGO + 20_000), "invalid_claim"),
    "another audience": (_change(aud="another-client"), "invalid_claim"),
    "no audience": (_remove("aud"), "missing_claim"),
    "a shared audience, made for another": (_change(aud=[CLIENT_ID, "other"], azp="other"), "azp"),
    "a shared audience, made for nobody": (_change(aud=[CLIENT_ID, "other"]), "azp"),
    "another issuer": (_change(iss="https://evil.example"), "invalid_claim"),
    "no issuer": (_remove("iss"), "missing_claim"),
    "nobody": (_remove("sub"), "missing_claim"),
    "an email that nobody verified": (_change(email_verified=False), "verified"),
    "an email that nobody speaks of": (_remove("email_verified"), "verified"),
    "a name with control characters": (_change(email="ann\n\x1b[31m"), "does not name anybody"),
    "a name that is a list": (_change(email=["ann"]), "does not name anybody"),
}


def test_wrong_claims_are_refused(oidc_console: Served, provider: IdentityProvider) -> None:
    """The page names the claim and nothing else of the token."""
    with oidc_console.client() as client:
        for what, (change, reason) in WRONG_CLAIMS.items():
            provider.change_claims = change
            answer = sign_in_at_provider(client)
            assert reason in refusal(answer), what
            assert provider.tokens[-1] not in answer.text
            assert client.get("/api/me").status_code == 401


_NO_ALGORITHM = b'{"alg":"none","typ":"JWT"}'
_WITH_A_SECRET = b'{"alg":"HS256","kid":"first"}'


def _encoded(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()


def _unsigned(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    return f"{_encoded(_NO_ALGORITHM)}.{_encoded(json.dumps(claims).encode())}."


def _by_a_public_key(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """Sign with HMAC, and take the public key of the provider for the secret."""
    public: bytes = provider.key.as_pem(private=False)
    signed = f"{_encoded(_WITH_A_SECRET)}.{_encoded(json.dumps(claims).encode())}"
    return f"{signed}.{_encoded(hmac.digest(public, signed.encode(), 'sha256'))}"


def _by_a_stranger(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, RSAKey.generate_key(2048), ["RS256"])


def _by_a_key_inside(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "jwk": key.as_dict(private=False), "kid": "first"}
    return jwt.encode(header, claims, key, ["RS256"])


def _changed_afterwards(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    head, _, signature = provider.signed(claims).split(".")
    _, body, _ = provider.signed({**claims, "groups": ["platform"]}).split(".")
    return f"{head}.{body}.{signature}"


FORGERIES = {
    "alg none": _unsigned,
    "the public key as a secret": _by_a_public_key,
    "another key": _by_a_stranger,
    "a key inside the token": _by_a_key_inside,
    "claims changed afterwards": _changed_afterwards,
    "no token": lambda provider, claims: "x",
    "bytes": lambda provider, claims: "\u2603.\x00.é",
}


def test_forged_tokens_are_refused(oidc_console: Served, provider: IdentityProvider) -> None:
    """Only a signature with a key that the provider publishes counts."""
    with oidc_console.client() as client:
        for what, forge in FORGERIES.items():
            provider.make_token = partial(forge, provider)
            assert "ID token" in refusal(sign_in_at_provider(client)), what
            assert client.get("/api/me").status_code == 401


def test_a_state_belongs_to_a_browser(oidc_console: Served, provider: IdentityProvider) -> None:
    """The way back of somebody else, one without a state, and one whose state was changed lead nowhere."""
    with oidc_console.client() as victim, oidc_console.client() as attacker:
        foreign = way_back(attacker)
        own = way_back(victim)
        state = parse_qs(urlsplit(own).query)["state"][0]
        for address in (foreign, own.replace(state, ""), own.replace(state, state[:12] + "0" * 52), own + "0"):
            wrong = address if address != own + "0" else own.replace(state, f"{state}0")
            assert "did not begin this sign-in" in refusal(victim.get(wrong))
        assert provider.tokens == []
        assert victim.get(own).status_code == 303


def test_a_code_counts_once(oidc_console: Served, provider: IdentityProvider) -> None:
    """The same way back again leads nowhere; neither does its code, if the browser kept the cookie."""
    with oidc_console.client() as client:
        back = way_back(client)
        kept = dict(client.cookies)
        assert client.get(back).status_code == 303
        assert "did not begin this sign-in" in refusal(client.get(back))
        with oidc_console.client(cookies=kept) as again:
            assert refusal(again.get(back)) == "the identity provider did not answer as it should"
        assert provider.refused == ["code"]
        assert len(provider.tokens) == 1


def test_a_stolen_code_lacks_the_verifier(oidc_console: Served, provider: IdentityProvider) -> None:
    """A code that an attacker puts into a sign-in of his own is refused by the provider."""
    with oidc_console.client() as victim, oidc_console.client() as attacker:
        stolen = parse_qs(urlsplit(way_back(victim)).query)["code"][0]
        own = way_back(attacker)
        code = parse_qs(urlsplit(own).query)["code"][0]
        assert refusal(attacker.get(own.replace(code, stolen)))
        assert provider.refused == ["client, verifier or address"]
