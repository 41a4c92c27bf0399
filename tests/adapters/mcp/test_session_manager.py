"""Sessions in a journal: who may use them, what begins one, and what a node does when the journal cannot be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from mcp_program import make_server
from seekpoint import MemoryLog, Node
from seekpoint.adapters.mcp import SeekpointEventStore, SeekpointSessionManager
from seekpoint.errors import JournalUnavailable

URL = "http://127.0.0.1:8000/mcp"
HEADERS = {"Accept": "application/json, text/event-stream"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


class Authenticated:
    """An application in front of which somebody has checked a token."""

    def __init__(self, manager: SeekpointSessionManager) -> None:
        self._app = StreamableHTTPASGIApp(manager)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = [value.decode() for name, value in scope["headers"] if name == b"x-user"]
        if names:
            scope["user"] = AuthenticatedUser(AccessToken(token="t", client_id=names[0], scopes=[]))
        await self._app(scope, receive, send)


@asynccontextmanager
async def nodes(count: int = 2, **options: Any) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Yield clients of so many nodes of one journal."""
    log = MemoryLog()
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            node = await stack.enter_async_context(Node.in_memory(log))
            manager = SeekpointSessionManager(make_server(), node, json_response=True, **options)
            await stack.enter_async_context(manager.run())
            transport = httpx.ASGITransport(app=Authenticated(manager))
            found.append(await stack.enter_async_context(httpx.AsyncClient(transport=transport, headers=HEADERS)))
        yield found


async def begin(client: httpx.AsyncClient, **headers: str) -> dict[str, str]:
    """Begin a session, and return the headers of its requests."""
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
    answer = await client.post(URL, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25", **headers}


async def test_only_the_credential_that_began_a_session_may_use_it() -> None:
    """At no node may another one, or nobody, use it or end it."""
    async with nodes() as [one, other]:
        session = await begin(one, **{"x-user": "ann"})
        eve = {**session, "x-user": "eve"}
        nobody = {name: value for name, value in session.items() if name != "x-user"}
        for client in (other, one):
            for headers in (eve, nobody):
                assert (await client.post(URL, json=LIST, headers=headers)).status_code == 404
                assert (await client.delete(URL, headers=headers)).status_code == 404
        for client in (other, one):
            assert (await client.post(URL, json=LIST, headers=session)).status_code == 200
            assert (await client.post(URL, json=LIST, headers=eve)).status_code == 404


async def test_the_other_node_knows_the_client() -> None:
    """What it said of itself when it began the session."""
    async with nodes() as [one, other]:
        session = await begin(one)
        answer = await other.post(URL, json=LIST, headers=session)
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["steps", "large", "polled"]


async def test_a_session_that_cannot_be_stored_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told to send the request again; so it is when a session cannot be read."""
    async with nodes() as [one, other]:
        session = await begin(one)

        async def fail(*_: Any, **__: Any) -> None:
            raise JournalUnavailable("no broker answers")

        with monkeypatch.context() as patched:
            patched.setattr(SeekpointEventStore, "update", fail)
            body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            answer = await one.post(URL, json=body)
            assert (answer.status_code, "mcp-session-id" in answer.headers) == (503, False)
            assert "send the request again" in answer.json()["error"]["message"]
            patched.setattr(SeekpointEventStore, "state", fail)
            for client in (one, other):
                assert (await client.post(URL, json=LIST, headers=session)).status_code == 503
        assert (await other.post(URL, json=LIST, headers=session)).status_code == 200


async def test_a_request_that_is_refused_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web page of another host can neither fill the journal nor have it read."""
    safe = TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=["127.0.0.1:*"])
    async with nodes(1, security_settings=safe) as [client]:
        session = await begin(client)

        def fail(*_: Any, **__: Any) -> None:
            raise AssertionError("the journal was asked")

        monkeypatch.setattr(SeekpointEventStore, "state", fail)
        evil = {"host": "evil.example"}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        assert (await client.post(URL, json=body, headers=evil)).status_code == 421
        assert (await client.post(URL, json=LIST, headers={**session, **evil})).status_code == 421


@pytest.mark.parametrize("session_id", ["x" * 101, "no such session", "a/b", "nobody"])
async def test_a_session_that_is_not_there_is_not_found(session_id: str) -> None:
    """Whatever its id looks like."""
    async with nodes(1) as [client]:
        headers = {"mcp-session-id": session_id, "mcp-protocol-version": "2025-11-25"}
        assert (await client.post(URL, json=LIST, headers=headers)).status_code == 404


async def test_a_node_takes_at_most_so_many_sessions() -> None:
    """It sends the client to another node."""
    async with nodes(max_sessions=1) as [one, other]:
        session = await begin(one)
        await begin(other)
        assert (await other.post(URL, json=LIST, headers=session)).status_code == 503
        assert (await one.post(URL, json=LIST, headers=session)).status_code == 200


async def test_a_client_that_goes_while_its_session_begins_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that nobody can use do not count."""
    begun = asyncio.Event()

    async def wait(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with nodes(1, max_sessions=1) as [client]:
        with monkeypatch.context() as patch:
            patch.setattr(SeekpointEventStore, "update", wait)
            gone = asyncio.create_task(begin(client))
            await begun.wait()
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        await begin(client)


@pytest.mark.parametrize("info", [{"name": "x" * 1_500_000}, {"name": "x", "size": float("nan")}])
async def test_what_a_client_says_of_itself_may_be_too_much(info: dict[str, Any]) -> None:
    """It is told what is wrong: to send the same again would not help."""
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**HELLO, "clientInfo": info}}
    async with nodes(1) as [client]:
        answer = await client.post(URL, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert "cannot be stored" in answer.json()["error"]["message"]
        await begin(client)
