"""Signing in with OpenID Connect, at a provider on this machine."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from browsers import Browser
from consoles import Served, serving
from identity_providers import (
    CLIENT_SECRET,
    IdentityProvider,
    refusal,
    settings_file,
    sign_in_at_provider,
    to_provider,
    way_back,
)
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.auth.oidc_provider import OidcProvider, ProviderError
from seekpoint.console.web.auth.oidc_settings import read_oidc_settings
from seekpoint.console.web.auth.tokens import TokenFile
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.console_options import ConsoleOptions


def test_a_person_signs_in_in_a_browser(
    browser: Browser, oidc_console: Served, provider: IdentityProvider, axe: str
) -> None:
    """On the way to a page; the provider's claims give name and role; signing out does not sign in again."""
    browser.open(f"{oidc_console.url}/process?id=order-1")
    browser.until(lambda: browser.all("#allow"))[0].click()
    browser.until(lambda: browser.text("h1") == "order-1")
    assert browser.text(".who") == "ann@example.com · operator"
    cookie = browser.driver.get_cookie("seekpoint_" + oidc_console.url.rpartition(":")[2])
    assert cookie is not None
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    browser.one("header form button").click()
    browser.until(lambda: browser.all("a.button"))
    assert browser.violations(axe) == []
    browser.one("a.button").click()
    browser.until(lambda: browser.all("#allow"))


def test_the_request_to_the_provider(oidc_console: Served, provider: IdentityProvider) -> None:
    """It has a state, a nonce and a challenge of their own each time, and never the secret."""
    with oidc_console.client() as client:
        first, second = (parse_qs(urlsplit(to_provider(client)).query) for _ in range(2))
        for name in ("state", "nonce", "code_challenge"):
            assert len({first[name][0], second[name][0]}) == 2
            assert len(first[name][0]) >= 43
        assert first["redirect_uri"] == [f"{oidc_console.url}/sign-in/callback"]
        assert first["code_challenge_method"] == ["S256"]
        assert first["scope"] == ["openid profile email"]
        assert len({first["state"][0], first["nonce"][0], first["code_challenge"][0]}) == 3
        assert CLIENT_SECRET not in str(first)


def test_claims_give_roles(oidc_console: Served, provider: IdentityProvider) -> None:
    """The highest role counts, and the session lasts an hour."""
    for groups, role in (
        (["staff"], "viewer"), (["staff", "platform"], "admin"), ("support", "operator"), ([7, "support"], "operator")
    ):  # fmt: skip
        provider.claims["groups"] = groups
        with oidc_console.client() as client:
            answer = sign_in_at_provider(client)
            assert (answer.status_code, answer.headers["location"]) == (303, "/processes?agent=clerk")
            [cookie] = [one.lower() for one in answer.headers.get_list("set-cookie") if "/sign-in" not in one]
            assert all(word in cookie for word in ("httponly", "samesite=lax"))
            assert 3500 < int(re.findall(r"max-age=(\d+)", cookie)[0]) <= 3600
            me = client.get("/api/me").json()
            assert (me["name"], me["role"]) == ("ann@example.com", role)


def test_no_role_is_no_entry(oidc_console: Served, provider: IdentityProvider) -> None:
    """Somebody of another team is told so, and sees nothing."""
    with oidc_console.client() as client:
        for groups in (["other"], [], None, "STAFF", {"staff": True}):
            provider.claims["groups"] = groups
            said = refusal(sign_in_at_provider(client))
            assert said == "no value of the claim groups gives a role in this console"
            assert client.get("/api/me").status_code == 401


def test_the_way_back_stays_here(oidc_console: Served) -> None:
    """Whatever the return address asks for."""
    with oidc_console.client() as client:
        for wanted in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "\t//e", "//"):
            assert client.get(way_back(client, wanted)).headers["location"] == "/"
        assert client.get(way_back(client, "/x" * 2000)).headers["location"] == "/"


@pytest.mark.parametrize("said", ["access_denied", "<script>alert(1)</script>"])
def test_the_provider_says_no(oidc_console: Served, provider: IdentityProvider, said: str) -> None:
    """Its word is shown if it is one."""
    with oidc_console.client() as client:
        state = parse_qs(urlsplit(to_provider(client)).query)["state"][0]
        answer = client.get("/sign-in/callback", params={"error": said, "state": state, "error_description": "secret"})
        wanted = "the identity provider said access_denied" if said == "access_denied" else "provider sent no code"
        assert wanted in refusal(answer)
        assert "secret" not in answer.text


def test_another_issuer_answers(oidc_console: Served, provider: IdentityProvider) -> None:
    """The answer names its issuer (RFC 9207). One that says it always does has to."""
    with oidc_console.client() as client:
        back = way_back(client)
        issuer = parse_qs(urlsplit(back).query)["iss"][0]
        other = str(httpx.URL(back).copy_set_param("iss", "https://evil.example"))
        assert "another issuer" in refusal(client.get(other))
        assert issuer == provider.url
        assert client.get(back).status_code == 303


def test_keys_are_rotated(oidc_console: Served, provider: IdentityProvider) -> None:
    """A new key counts at once, without a restart, and a withdrawn one does not any more."""
    with oidc_console.client() as client:
        assert sign_in_at_provider(client).status_code == 303
        old, provider.key = provider.key, RSAKey.generate_key(2048)
        provider.rotate()
        assert sign_in_at_provider(client).status_code == 303
        provider.make_token = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, old, ["RS256"])
        assert "ID token" in refusal(sign_in_at_provider(client))


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"token_endpoint": "http://evil.example/token"}, "no token_endpoint that starts with https"),
        ({"jwks_uri": "file:///etc/passwd"}, "no jwks_uri that starts with https"),
    ],
)
async def test_a_description_is_checked(
    provider: IdentityProvider, tmp_path: Path, described: dict[str, Any], reason: str
) -> None:
    """It is of this issuer, and has no address that would give the code away."""
    settings = read_oidc_settings(settings_file(tmp_path, provider), "http://127.0.0.1:1")
    assert (await OidcProvider(settings).description())["token_endpoint"] == f"{provider.url}/token"
    provider.description = described
    with pytest.raises(ProviderError, match=reason):
        await OidcProvider(settings).description()


def test_a_provider_that_is_down(
    target: CommandTarget, provider: IdentityProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page says so, and the next try works."""
    provider.is_down = True
    options = ConsoleOptions(port=0, oidc=settings_file(tmp_path, provider))
    with serving(target, options) as served, served.client() as client:
        assert refusal(client.get("/sign-in/oidc")) == "the identity provider did not answer as it should"
        assert "the description answered with status 503" in caplog.text
        provider.is_down = False
        assert sign_in_at_provider(client).status_code == 303


def test_nothing_secret_is_logged(
    oidc_console: Served,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not the code, not a token, not the secret, not the cookie: after a success and after a refusal."""
    with caplog.at_level(logging.DEBUG), oidc_console.client() as client:
        secrets = [CLIENT_SECRET, "access-17"]
        for _ in range(2):
            back = way_back(client)
            secrets += [parse_qs(urlsplit(back).query)[name][0] for name in ("code", "state")]
            client.get(back)
            secrets += [one.value for one in client.cookies.jar if one.value]
            provider.change_claims = lambda claims: claims.update(aud="other")
        secrets += provider.tokens
    written = "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith(("httpx", "httpcore")))
    written += "".join(capfd.readouterr())
    assert "refused a sign-in: the ID token is not valid" in written
    assert len(secrets) > 8
    assert [one for one in secrets if one in written] == []


def test_a_session_ends_with_the_settings(target: CommandTarget, provider: IdentityProvider, tmp_path: Path) -> None:
    """Whoever had a role by the old settings signs in again. Tokens beside the provider still work."""
    token = TokenFile(tmp_path / "tokens.json").add("robot", Role.VIEWER, "2026-11-25")
    path = settings_file(tmp_path, provider)
    options = ConsoleOptions(port=0, oidc=path, tokens=tmp_path / "tokens.json")
    with serving(target, options) as first, first.client() as client:
        sign_in_at_provider(client)
        value = next(one.value for one in client.cookies.jar if "_" not in one.name.partition("_")[2])

    def status(oidc_console: Served) -> int:
        cookie = f"seekpoint_{oidc_console.url.rpartition(':')[2]}={value}"
        return httpx.get(f"{oidc_console.url}/api/me", headers={"Cookie": cookie}).status_code

    with serving(target, options) as same:
        assert status(same) == 200
    path.write_text(path.read_text().replace('["support"]', '["helpers"]'))
    with serving(target, options) as changed:
        assert status(changed) == 401
        sent = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{changed.url}/api/me", headers=sent).json()["name"] == "robot"
        assert "<form" in httpx.get(f"{changed.url}/sign-in?next=/").text


def test_claims_inside_claims(provider: IdentityProvider, tmp_path: Path, target: CommandTarget) -> None:
    """Roles of a realm; a name that is no email address."""
    provider.claims = {"sub": "u-17", "realm_access": {"roles": ["platform"]}, "https://x.example/name": "Ann"}
    before = 'actor = "https://x.example/name"\nrole_claim = "realm_access.roles"\n'
    options = ConsoleOptions(port=0, oidc=settings_file(tmp_path, provider, before))
    with serving(target, options) as served, served.client() as client:
        sign_in_at_provider(client)
        assert client.get("/api/me").json()["name"] == "Ann"
        assert client.get("/api/me").json()["role"] == "admin"
