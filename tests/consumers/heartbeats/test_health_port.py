"""The health port under clients that mean no good: a probe is answered all the while."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from seekpoint.consumers.heartbeats import health_port
from seekpoint.consumers.heartbeats.health_port import HealthPort


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port of a service that is well, whose clients have little time."""
    monkeypatch.setattr(health_port, "_REQUEST_TIMEOUT_S", 0.6)
    monkeypatch.setattr(health_port, "_CONNECTIONS_MAX", 8)
    well = SimpleNamespace(is_well=True, lag=0, stalled_s=0.0, not_ready=None, parts={})
    with HealthPort("127.0.0.1", 0, well, lambda: ()) as made:
        yield made.port


def probe(port: int) -> bool:
    """Whether the service says that it is well."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return bool(json.loads(connection.getresponse().read())["ok"])
    finally:
        connection.close()


def ended(client: socket.socket) -> bool:
    """Whether the server closes the connection within the deadline."""
    client.settimeout(20)
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        return True
    return True


def test_the_health_port_closes_a_slow_request(port: int) -> None:
    """A byte now and then keeps no thread: the time is for the whole request."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        with contextlib.suppress(OSError):
            for _ in range(200):
                client.sendall(b"G")
                time.sleep(0.1)
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if client.recv(1) == b"":
                        break
                client.setblocking(True)
        assert time.monotonic() - began < 10
        assert ended(client)
    assert probe(port)


def test_the_health_port_closes_a_silent_connection(port: int) -> None:
    """It said nothing at all, or half of a request."""
    for said in (b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: "):
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(said)
            assert ended(client)


def test_the_health_port_closes_an_endless_request(port: int) -> None:
    """Neither a line nor headers may be larger than any probe's."""
    for said in (b"GET /" + b"x" * 100_000, b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 20_000):
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            with contextlib.suppress(OSError):
                client.sendall(said)
            assert ended(client)
    assert probe(port)


def test_the_health_port_answers_a_probe_while_clients_hold_connections(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for the newest; threads do not grow with the number of clients."""
    monkeypatch.setattr(health_port, "_REQUEST_TIMEOUT_S", 60.0)
    before = threading.active_count()
    with contextlib.ExitStack() as clients:
        held = [clients.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(60)]
        for each in held:
            with contextlib.suppress(OSError):
                each.sendall(b"GET ")
        assert probe(port)
        deadline = time.monotonic() + 20
        while threading.active_count() - before > 9:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert ended(held[0])


def test_a_client_that_disconnects_prints_no_traceback(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    """No traceback on stderr: a scan of ports would fill a log with them."""
    for _ in range(5):
        client = socket.create_connection(("127.0.0.1", port), 20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        client.close()
    assert probe(port)
    assert "Traceback" not in capfd.readouterr().err
