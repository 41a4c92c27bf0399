"""What clients can hold of an HTTP server of the console."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from seekpoint.console.services import http_serving
from seekpoint.console.services.http_serving import listen, server_config


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = await Request(scope, receive).body()

    async def slowly() -> AsyncIterator[bytes]:  # an answer that takes longer than a request may
        for _ in range(6):
            await asyncio.sleep(0.1)
            yield b"."

    answer = StreamingResponse(slowly()) if scope["path"] == "/slow" else PlainTextResponse(str(len(body)))
    await answer(scope, receive, send)


@contextmanager
def _running() -> Iterator[int]:
    with listen("127.0.0.1", 0, "the test") as listening:
        server = uvicorn.Server(server_config(_app))
        thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listening]),))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(http_serving, "_REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(http_serving, "_CONNECTIONS_MAX", 3)
    with _running() as found:
        yield found


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def _drip(connection: socket.socket, data: bytes) -> None:
    """Send a byte at a time until the server closes the connection. Fails if it never does."""
    end = time.monotonic() + 20
    connection.settimeout(0.02)
    while time.monotonic() < end:
        try:
            connection.sendall(data)
            if connection.recv(100) == b"":
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    raise AssertionError("the server still waits")


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"", b"G"),
        (b"GET / HTTP/1.1\r\nhost: a\r\n", b"x"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 90000\r\n\r\n", b"x"),
        (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"G"),
    ],
    ids=["nothing", "head", "body", "second request"],
)
def test_a_request_that_arrives_too_slowly_is_cut_off(port: int, begin: bytes, drop: bytes) -> None:
    """However often it sends a byte: its head, its body, and those of a later request of the connection."""
    with closing(_connected(port)) as connection:
        connection.sendall(begin)
        if begin.endswith(b"a\r\n\r\n"):
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")
        _drip(connection, drop)


def test_an_answer_may_take_longer_than_a_request(port: int) -> None:
    """A page that follows a process stays open, and its connection takes the next request."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        assert client.get("/slow").text == "......"
        assert client.post("/", content=b"x" * 5_000).text == "5000"


def test_one_connection_too_many_is_refused(port: int) -> None:
    """Those that are open go on; one that ends makes room."""
    with closing(_connected(port)) as first:
        first.sendall(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        others = [_connected(port) for _ in range(2)]
        with closing(_connected(port)) as refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503")
            assert refused.recv(100) == b""
        for other in others:
            other.close()
        assert first.recv(100).startswith(b"HTTP/1.1 200")
    end = time.monotonic() + 20
    while httpx.get(f"http://127.0.0.1:{port}/", headers={"connection": "close"}).status_code != 200:
        assert time.monotonic() < end
