"""Sessions of MCP that are spoken by hand, and the programs that serve them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Server", "Session", "begin", "start", "stop", "told"]

VERSION = "2025-11-25"
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Server:
    """A program that serves."""

    url: str
    port: int
    program: subprocess.Popen[str]

    def kill(self) -> None:
        """End it at once."""
        self.program.kill()
        self.program.wait()
        assert self.program.stdout is not None
        self.program.stdout.close()


def start(program: str, *arguments: str, **given: str) -> Server:
    """Start ``PROGRAM.py PORT ARGUMENTS`` with these variables of the environment; wait until it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(_FOLDER / f"{program}.py"), str(port), *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**kept, **given})
    assert running.stdout is not None
    assert running.stdout.readline() == "listening\n"
    return Server(f"http://127.0.0.1:{port}/mcp", port, running)


def stop(server: Server) -> None:
    """End a server as a fleet does."""
    if server.program.poll() is None:
        server.program.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.program.wait(10)
    server.kill()


@dataclass
class Session:
    """A session, spoken by hand."""

    http: httpx.AsyncClient
    id: str
    token: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return what each request of the session has."""
        found = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        return {**found, "Mcp-Session-Id": self.id}

    async def post(self, url: str, number: Any, method: str, **params: Any) -> list[tuple[str, Any]]:
        """Return the events of a request."""
        async with self.asking(url, number, method, **params) as events:
            return [one async for one in events]

    @asynccontextmanager
    async def asking(
        self, url: str, number: Any, method: str, **params: Any
    ) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Send a request, and read its events while they come."""
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with self.http.stream("POST", url, json=body, headers=self.headers) as response:
            assert response.status_code == 200, await response.aread()
            yield events_of(response)

    @asynccontextmanager
    async def resuming(self, url: str, event_id: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Go on behind an event."""
        headers = {**self.headers, "Last-Event-ID": event_id}
        async with self.http.stream("GET", url, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield events_of(response)

    async def resumed(self, url: str, event_id: str) -> list[tuple[str, Any]]:
        """Return all events behind an event, until the server ends the stream."""
        async with self.resuming(url, event_id) as events, asyncio.timeout(15):
            return [one async for one in events]


async def events_of(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Yield the id and the message of each event; of an event that begins a stream the message is None."""
    event_id, data = "", ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if name == "id":
            event_id = value.strip()
        elif name == "data":
            data += value.strip()
        elif not line and event_id:
            yield event_id, json.loads(data) if data else None
            event_id, data = "", ""


async def begin(http: httpx.AsyncClient, url: str) -> Session:
    """Begin a session, as a client does."""
    hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    headers = {"Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    answer = await http.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    session = Session(http, answer.headers["mcp-session-id"])
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(url, json=done, headers=session.headers)).status_code == 202
    return session


def told(events: list[tuple[str, Any]]) -> list[Any]:
    """Return the steps that were reported, and the text of the answer."""
    found: list[Any] = []
    for _, message in events:
        if message is not None and "result" in message:
            found.append(message["result"]["content"][0]["text"])
        elif message is not None:
            found.append(message["params"]["progress"])
    return found
