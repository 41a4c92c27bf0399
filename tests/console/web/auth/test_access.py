"""Who may do what: hosts, other sites, tokens, roles, CSRF tokens, cookies."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from consoles import Served, serving
from identity_providers import sign_in_at_provider
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.acting.actions import ActionRequest
from seekpoint.console.web.auth.sessions import BrowserSession, SessionSigner, new_session
from seekpoint.console.web.auth.tokens import TokenFile
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.data import streams
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit
from seekpoint.console.web.routes import OPERATIONS, PAGES
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct


class _Note(FrozenStruct, frozen=True):
    text: str


async def _change(visit: Visit, query: NoQuery, note: _Note) -> _Note:
    return _Note(f"{visit.identity.name}: {note.text}")


CHANGE = Operation(
    path="/api/test", summary="Change something.", call=_change, answer=_Note, method="POST", body=_Note,
    role=Role.OPERATOR,
)  # fmt: skip


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """A token of each role, by the name of the role. Their file is tokens.json."""
    file = TokenFile(tmp_path / "tokens.json")
    return {role.title: file.add(role.title, role, "2026-11-25") for role in Role}


@pytest.fixture
def guarded(target: CommandTarget, tokens: dict[str, str], tmp_path: Path) -> Iterator[Served]:
    """A console that needs tokens."""
    options = ConsoleOptions(port=0, tokens=tmp_path / "tokens.json")
    with serving(target, options, (*OPERATIONS, CHANGE)) as served:
        yield served


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_another_address_needs_authentication(target: CommandTarget) -> None:
    """Otherwise everybody in the network could read the journal."""
    with pytest.raises(InvalidSetting, match="needs authentication"), serving(target, ConsoleOptions(host="0.0.0.0")):
        raise AssertionError("it serves")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", ""])
def test_a_foreign_host_is_refused(console: Served, host: str) -> None:
    """A name that was pointed at 127.0.0.1 (DNS rebinding) gets nothing."""
    with console.client() as client:
        assert client.get("/api/processes", headers={"Host": host}).status_code == 421
        assert client.get("/api/processes", headers={"Host": "localhost:9"}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_cannot_read(console: Served, site: str) -> None:
    """A script or an image of another site gets nothing; a link to a page works."""
    with console.client() as client:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert client.get("/api/processes", headers=headers).status_code == 403
        assert client.get("/processes", headers={**headers, "Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_every_answer_confines_the_page(guarded: Served) -> None:
    """Pages, errors, files and the API have the same strict policy."""
    paths = ["/processes", "/sign-in", "/api/processes", "/nowhere", "/static/x/console.css", "/api/openapi.json"]
    with guarded.client() as client:
        for path in paths:
            headers = client.get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; "), path
            assert "unsafe" not in headers["content-security-policy"]
            assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")


@pytest.mark.parametrize("operation", [*OPERATIONS, CHANGE], ids=lambda one: f"{one.method} {one.path}")
def test_each_call_by_role(guarded: Served, tokens: dict[str, str], operation: Operation) -> None:
    """Nobody gets in without a token, and no role does more than it may."""
    with guarded.client() as client:
        path = operation.path
        assert client.request(operation.method, path, json={}).status_code == 401
        assert client.request(operation.method, path, json={}, headers=bearer("spc_wrong")).status_code == 401
        for role in Role:
            status = client.request(operation.method, path, json={}, headers=bearer(tokens[role.title])).status_code
            assert (status == 403) == (role < operation.role), (role, status)
            assert status != 401


CHANGES = [one for one in (*OPERATIONS, CHANGE) if one.method != "GET"]


def test_each_change_is_guarded(guarded: Served, target: CommandTarget, tokens: dict[str, str]) -> None:
    """By the role, by the CSRF token of a browser's session, and by a read-only console."""
    read_only = serving(target, ConsoleOptions(port=0), (*OPERATIONS, CHANGE))
    with guarded.client() as client, read_only as served, served.client() as reader:
        signed_in(client, tokens["admin"])
        own, of_reader = {"X-CSRF-Token": csrf_of(client)}, {"X-CSRF-Token": csrf_of(reader)}
        for operation in CHANGES:
            assert operation.role >= Role.OPERATOR
            for wrong in ({}, {"X-CSRF-Token": "wrong"}):
                answer = client.post(operation.path, json={}, headers=wrong)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "CsrfTokenNeeded"), operation
            assert client.post(operation.path, json={}, headers=own).json()["error"]["code"] == "BadBody", operation
            answer = reader.post(operation.path, json={}, headers=of_reader)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "RoleNeeded"), operation


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method != "GET"], ids=lambda one: one.path)
def test_each_change_asks_for_a_reason(operation: Operation) -> None:
    """One that says something, and its dry run comes first."""
    assert operation.body is not None
    assert issubclass(operation.body, ActionRequest)
    document = msgspec.json.schema(operation.body)
    described = document["$defs"][operation.body.__name__]
    assert "reason" in described["required"]
    assert described["properties"]["reason"]["pattern"] == r"\S"


@pytest.mark.parametrize("path", sorted({page.path for page in PAGES}))
def test_each_page_asks_to_sign_in(guarded: Served, tokens: dict[str, str], path: str) -> None:
    """And a token opens it, to every role that it is for."""
    with guarded.client() as client:
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in")
        [page] = [one for one in PAGES if one.path == path]
        for role in Role:
            with client.stream("GET", path, headers=bearer(tokens[role.title])) as opened:
                assert (opened.status_code == 403) == (role < page.role)
                assert not opened.headers.get("location", "").startswith("/sign-in")


def test_a_read_only_console_shows_what_a_viewer_may(console: Served) -> None:
    """Without any sign-in: pages for those who change something are refused, and so is every change."""
    with console.client() as client:
        for page in PAGES:
            with client.stream("GET", page.path) as opened:
                assert (opened.status_code == 403) == (page.role > Role.VIEWER), page.path
        for operation in OPERATIONS:
            status = client.request(operation.method, operation.path, json={}).status_code
            assert (status == 403) == (operation.role > Role.VIEWER), operation.path


def test_content_is_never_in_a_url(guarded: Served, tokens: dict[str, str]) -> None:
    """What somebody writes goes in the body of a change: logs of proxies and browsers keep addresses."""
    for operation in OPERATIONS:
        assert operation.method in ("GET", "POST")
        if operation.method == "POST":
            assert (operation.query, operation.body is None) == (NoQuery, False), operation.path
    queries = [*(page.query for page in PAGES), *(operation.query for operation in OPERATIONS)]
    names = {name for query in queries for name in query.__struct_fields__}
    assert names.isdisjoint({"reason", "answer", "output", "input", "value", "token", "csrf_token", "note"})
    with guarded.client() as client:
        assert client.get("/sign-in", params={"token": tokens["admin"]}).status_code == 200
        assert client.get("/api/me", params={"token": tokens["admin"]}).status_code == 401


async def _break(visit: Visit, query: NoQuery) -> _Note:
    raise RuntimeError("it broke at content-of-an-agent")


BROKEN = Operation(path="/api/broken", summary="Break.", call=_break, answer=_Note)


def test_error_pages_leak_nothing(target: CommandTarget, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a traceback, nor a place in the code, nor the journal's content, nor what was asked for unescaped."""
    with serving(target, ConsoleOptions(port=0), (*OPERATIONS, BROKEN)) as served, served.client() as client:
        answer = client.get("/api/broken")
        assert (answer.status_code, answer.json()["error"]["message"]) == (500, "unexpected RuntimeError")
        answers = [answer, *(client.get(path) for path in (
            "/nowhere/<script>x", "/api/nowhere", "/process", "/process?id=%00", "/process?id=nobody", "/static/x/../y",
            "/process?id=<script>alert(1)</script>", "/processes?limit=%27", "/processes?unknown=1",
            "/sign-in/callback", "/call?id=order-1&number=99999", "/events/processes?sort=x",
            "/api/entries?id=order-1&seq=%ff",
        ))]  # fmt: skip
        for answer in answers:
            assert answer.status_code >= 400, answer.url
            for secret in (
                "content-of-an-agent",
                "Traceback",
                ".py",
                str(target.settings.sqlite_path),
                "<script>alert",
            ):
                assert secret not in answer.text, (secret, answer.url)
    assert "unexpected RuntimeError at test_access.py" in caplog.text
    assert "content-of-an-agent" not in caplog.text


def test_a_stream_ends_with_its_token(
    guarded: Served, tokens: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody whose token is removed sees nothing more on a page that is open. A script gets 401, and no form."""
    monkeypatch.setattr(streams, "_KEEP_ALIVE_S", 0.1)
    with guarded.client() as client:
        signed_in(client, tokens["viewer"])
        with client.stream("GET", "/events/processes") as opened:
            lines = opened.iter_lines()
            while not next(lines).startswith("data:"):
                pass
            TokenFile(tmp_path / "tokens.json").remove("viewer")
            assert not any(line.startswith("data:") for line in lines)
        answer = client.get("/events/processes", headers={"Sec-Fetch-Mode": "cors"})
        assert (answer.status_code, "location" in answer.headers) == (401, False)


def signed_in(client: httpx.Client, token: str) -> httpx.Response:
    """Sign in as a browser does."""
    form = client.get("/sign-in?next=%2Fprocesses%3Fagent%3Dclerk").text
    hidden = dict(re.findall(r'name="(csrf_token|next)" value="([^"]*)"', form))
    return client.post(
        "/sign-in", data={**hidden, "token": token}, headers={"Origin": str(client.base_url).rstrip("/")}
    )


def csrf_of(client: httpx.Client) -> str:
    token: str = re.findall(r'name="csrf-token" content="([^"]+)"', client.get("/processes").text)[0]
    return token


def test_a_browser_signs_in_and_out(guarded: Served, tokens: dict[str, str]) -> None:
    """It goes on where it wanted to; the cookie is of no use to scripts and other sites."""
    with guarded.client() as client:
        assert signed_in(client, "spc_wrong").status_code == 401
        answer = signed_in(client, tokens["viewer"])
        assert (answer.status_code, answer.headers["location"]) == (303, "/processes?agent=clerk")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert tokens["viewer"] not in cookie
        assert client.get("/api/me").json()["name"] == "viewer"
        client.post("/sign-out", data={"csrf_token": "wrong"})
        assert client.get("/api/me").status_code == 200
        client.post("/sign-out", data={"csrf_token": csrf_of(client)})
        assert client.get("/api/me").status_code == 401


def test_a_session_that_was_signed_out_is_ended_here(
    target: CommandTarget, tokens: dict[str, str], tmp_path: Path
) -> None:
    """A copy of its cookie is worth nothing, also after a restart; another session of the same person goes on."""
    options = ConsoleOptions(port=0, tokens=tmp_path / "tokens.json")
    with serving(target, options) as first, first.client() as client, first.client() as other:
        signed_in(client, tokens["viewer"])
        signed_in(other, tokens["viewer"])
        [copied] = client.cookies.jar
        client.post("/sign-out", data={"csrf_token": csrf_of(client)})
        client.cookies.set(copied.name, copied.value or "")
        assert client.get("/api/me").status_code == 401
        assert other.get("/api/me").status_code == 200
    with serving(target, options) as second, second.client() as client:
        port = second.url.rpartition(":")[2]
        assert client.get("/api/me", headers={"Cookie": f"seekpoint_{port}={copied.value}"}).status_code == 401


def test_a_session_of_a_provider_that_was_signed_out_is_ended_here(oidc_console: Served) -> None:
    """Without a file of tokens the console itself keeps it."""
    with oidc_console.client() as client:
        sign_in_at_provider(client)
        cookie = "; ".join(f"{one.name}={one.value}" for one in client.cookies.jar)
        client.post("/sign-out", data={"csrf_token": csrf_of(client)})
    with oidc_console.client() as client:
        assert client.get("/api/me", headers={"Cookie": cookie}).status_code == 401


def test_the_file_keeps_the_ended_sessions_that_last_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose time is over are forgotten, so that it does not grow."""
    monkeypatch.setattr("seekpoint.console.web.auth.tokens._ENDED_MAX", 2)
    file = TokenFile(tmp_path / "tokens.json")
    file.add("ann", Role.VIEWER, "2026-11-25")
    for session, expires_at in (("a", 50), ("b", 300), ("c", 200), ("d", 400)):
        file.end_session(session, expires_at, 100.0)
    assert [session for session in "abcd" if file.is_ended(session)] == ["b", "d"]
    file.end_session("e", 500, 350.0)
    assert [session for session in "bde" if file.is_ended(session)] == ["d", "e"]


def test_programs_that_change_the_tokens_at_once_lose_none(tmp_path: Path) -> None:
    """Each change waits for the one before."""
    names = [f"robot-{number}" for number in range(12)]

    def add(name: str) -> None:
        TokenFile(tmp_path / "tokens.json").add(name, Role.VIEWER, "2026-11-25")

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(add, names))
    assert sorted(token.name for token in TokenFile(tmp_path / "tokens.json").tokens()) == sorted(names)


def test_a_form_of_signing_in_is_small(guarded: Served) -> None:
    """Anybody may send it."""
    with guarded.client() as client:
        for path in ("/sign-in", "/sign-out"):
            assert client.post(path, data={"token": "x" * 20_000}).status_code == 413


def test_failed_sign_ins_and_refused_changes_are_logged(
    guarded: Served, tokens: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """With the place where they come from, and without a token."""
    with guarded.client() as client:
        for act, line in (
            (lambda: signed_in(client, "spc_wrong"), "refused a sign-in from 127.0.0.1: nobody has this token"),
            (lambda: client.get("/api/me", headers=bearer("spc_wrong")), "refused GET /api/me from 127.0.0.1"),
            (
                lambda: client.post("/api/test", json={"text": "x"}, headers=bearer(tokens["viewer"])),
                "refused POST /api/test from 127.0.0.1: RoleNeeded: this needs the role operator; viewer is viewer",
            ),
            (
                lambda: [signed_in(client, tokens["operator"]), client.post("/api/test", json={"text": "x"})],
                "refused POST /api/test from 127.0.0.1: CsrfTokenNeeded",
            ),
            (
                lambda: client.post("/api/test", headers={"Origin": "http://evil.example"}),
                "refused a change from 127.0.0.1: this request came from a page of another site",
            ),
        ):  # fmt: skip
            caplog.clear()
            act()
            assert line in caplog.text
            assert "spc_" not in caplog.text
        caplog.clear()
        client.cookies.clear()
        client.get("/api/me")
        assert caplog.text == ""


def test_a_removed_token_ends_its_sessions(guarded: Served, tokens: dict[str, str], tmp_path: Path) -> None:
    """At once, without a restart; so does a token of the same name that replaces it."""
    with guarded.client() as client:
        signed_in(client, tokens["operator"])
        assert client.get("/api/me").json()["role"] == "operator"
        file = TokenFile(tmp_path / "tokens.json")
        file.remove("operator")
        file.add("operator", Role.ADMIN, "2026-11-25")
        assert client.get("/api/me").status_code == 401


def test_a_session_outlives_a_restart(target: CommandTarget, tokens: dict[str, str], tmp_path: Path) -> None:
    """The key that signs it lies in the file of tokens."""
    options = ConsoleOptions(port=0, tokens=tmp_path / "tokens.json")
    with serving(target, options) as first, first.client() as client:
        signed_in(client, tokens["viewer"])
        [cookie] = client.cookies.jar
    with serving(target, options) as second, second.client() as client:
        port = second.url.rpartition(":")[2]
        assert client.get("/api/me", headers={"Cookie": f"seekpoint_{port}={cookie.value}"}).status_code == 200
        assert client.get("/api/me", headers={"Cookie": f"seekpoint_{port}=x{cookie.value}"}).status_code == 401


def test_a_session_ends() -> None:
    """After its time, and with a changed cookie; one that was signed for another purpose is none."""
    signer, session = SessionSigner(b"k" * 32), new_session(1_000.0, "ann", "p")
    cookie = signer.cookie(session)
    assert signer.session(cookie, session.expires_at - 1.0) == session
    assert signer.session(cookie, float(session.expires_at)) is None
    assert SessionSigner(b"o" * 32).session(cookie, 1_000.0) is None
    assert signer.opened("attempt", cookie, BrowserSession) is None
    for wrong in ("", ".", cookie[1:], f"{cookie}0", cookie.replace(".", ""), "\u2603.\u2603"):
        assert signer.session(wrong, 1_000.0) is None


def test_a_change_needs_the_csrf_token(guarded: Served, tokens: dict[str, str]) -> None:
    """Of this session; a bearer token needs none, because no browser sends it by itself."""
    with guarded.client() as client, guarded.client() as other:
        signed_in(client, tokens["operator"])
        signed_in(other, tokens["operator"])
        for wrong in ({}, {"X-CSRF-Token": "wrong"}, {"X-CSRF-Token": csrf_of(other)}):
            answer = client.post("/api/test", json={"text": "x"}, headers=wrong)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "CsrfTokenNeeded")
        own = {"X-CSRF-Token": csrf_of(client)}
        assert client.post("/api/test", json={"text": "x"}, headers=own).json() == {"text": "operator: x"}
        origin = {**own, "Origin": "http://evil.example"}
        assert client.post("/api/test", json={"text": "x"}, headers=origin).status_code == 403
        assert client.post("/api/test", json={"text": "x"}, headers=bearer(tokens["operator"])).status_code == 200


@pytest.mark.parametrize("allow_changes", [False, True])
def test_this_machine_looks_only(target: CommandTarget, allow_changes: bool) -> None:
    """Unless changes are allowed; then the user is the actor, and other sites still cannot change anything."""
    with (
        serving(target, ConsoleOptions(port=0, allow_changes=allow_changes), (CHANGE,)) as served,
        served.client() as client,
    ):
        own = {"X-CSRF-Token": csrf_of(client)}
        answer = client.post("/api/test", json={"text": "x"}, headers=own)
        if allow_changes:
            assert answer.json() == {"text": "ann: x"}
            assert client.post("/api/test", json={"text": "x"}).json()["error"]["code"] == "CsrfTokenNeeded"
        else:
            assert answer.json()["error"]["code"] == "RoleNeeded"
            assert "--allow-changes" in answer.json()["error"]["advice"]


@pytest.mark.parametrize("target_path", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb"])
def test_signing_in_never_leads_elsewhere(guarded: Served, tokens: dict[str, str], target_path: str) -> None:
    """Whatever the address of the form asks for."""
    with guarded.client() as client:
        csrf = dict(re.findall(r'name="(csrf_token)" value="([^"]*)"', client.get("/sign-in").text))
        answer = client.post("/sign-in", data={**csrf, "token": tokens["viewer"], "next": target_path})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_the_file_of_tokens_has_no_token(tokens: dict[str, str], tmp_path: Path) -> None:
    """Only hashes, and only its owner may read it; a name is there once."""
    path = tmp_path / "tokens.json"
    assert not any(token in path.read_text() for token in tokens.values())
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(Exception, match="has this name already"):
        TokenFile(path).add("viewer", Role.VIEWER, "now")


def test_nothing_secret_is_logged(
    guarded: Served,
    tokens: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No token, cookie or CSRF token, and no address with its ids: at any level, on any route."""
    caplog.set_level(logging.DEBUG)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "seekpoint"):
        caplog.set_level(logging.DEBUG, name)
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "handlers", [])  # pytest gives it one of its own
    with guarded.client() as client:
        signed_in(client, tokens["viewer"])
        secrets = [*tokens.values(), "spc_wrong_one", csrf_of(client), "an-id-of-somebody"]
        secrets += [one.value for one in client.cookies.jar if one.value]
        for sent in ({}, bearer(tokens["admin"]), bearer("spc_wrong_one")):
            for page in PAGES:
                if not page.path.startswith("/events"):
                    client.get(page.path, params={"id": "an-id-of-somebody"}, headers=sent)
            for operation in OPERATIONS:
                client.request(operation.method, operation.path, json={"id": "an-id-of-somebody"}, headers=sent)
    captured: Any = capfd.readouterr()
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    for text in (captured.out, captured.err, *logged):
        assert [one for one in secrets if one in text] == [], text
