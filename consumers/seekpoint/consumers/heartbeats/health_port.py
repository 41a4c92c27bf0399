"""Serve the probes and the metrics of a program on a port of its own, with the standard library's server.

Clients cannot block the service: the size and time of a request are limited, and when there are too many connections
the oldest one is closed, so a probe is answered even while other clients hold connections open.
"""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.schemas.config.extras import require_extra
from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from prometheus_client import Metric


_REQUEST_TIMEOUT_S = 5.0
_REQUEST_BYTES_MAX = 16_384
_CONNECTIONS_MAX = 32


class ServiceHealth(Protocol):
    """The health of a service: whether it is healthy, how much work waits, and how long it has made no progress.

    ``not_ready`` says why the service does not do its work yet, or any more; it is None while it does. ``parts`` holds
    the seconds without progress by part, for a service with several parts.
    """

    @property
    def is_well(self) -> bool: ...

    @property
    def lag(self) -> int | None: ...

    @property
    def stalled_s(self) -> float: ...

    @property
    def not_ready(self) -> str | None: ...

    @property
    def parts(self) -> Mapping[str, float]: ...


class HealthPort:
    """A health server for use in ``with``.

    ``/livez`` and ``/healthz`` answer 200 while ``health`` is well, ``/readyz`` while the service also does its work;
    else they answer 503. All answer with JSON.
    ``families`` returns the current metrics. With port 0 any free port is used; ``port`` holds the number. Raises
    ``InvalidSetting`` if the port is in use, and without the extra ``metrics``.
    """

    def __init__(self, host: str, port: int, health: ServiceHealth, families: Callable[[], Iterable[Metric]]) -> None:
        require_extra("metrics", "a health port", "prometheus_client")
        from prometheus_client import CollectorRegistry, generate_latest  # 140 ms

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_MetricsCollector(families))
        pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _livez(health),
            "/livez": lambda: _livez(health),
            "/readyz": lambda: _readyz(health),
            "/metrics": lambda: (200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(registry)),
        }
        try:
            self._server = _HealthServer((host, port), _handler(pages))
        except (OSError, OverflowError) as exc:
            raise InvalidSetting(
                f"the health port cannot be used: {exc}",
                hint="choose another one: --health-port of a service, port= of serve_health",
            ) from exc
        self.host, self.port = host, int(self._server.server_address[1])

    def __enter__(self) -> HealthPort:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health-port", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _livez(health: ServiceHealth) -> tuple[int, str, bytes]:
    facts: dict[str, object] = {"lag": health.lag, "stalled_s": round(health.stalled_s, 3)}
    if parts := health.parts:
        facts["parts"] = {name: round(seconds, 3) for name, seconds in parts.items()}
    return _answer(health.is_well, facts)


def _readyz(health: ServiceHealth) -> tuple[int, str, bytes]:
    reason = health.not_ready
    return _answer(reason is None, {} if reason is None else {"reason": reason})


def _answer(is_ok: bool, facts: Mapping[str, object]) -> tuple[int, str, bytes]:
    return 200 if is_ok else 503, "application/json", json.dumps({"ok": is_ok, **facts}).encode()


class _MetricsCollector:
    """A collector that prometheus-client calls at each scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self.collect = families


class _HealthServer(ThreadingHTTPServer):
    """A server with one thread per connection and a limit on connections."""

    daemon_threads = True
    request_queue_size = 128  # waiting connections: a probe among many must not be refused

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: dict[socket.socket, None] = {}  # in the order they came
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[request] = None
            oldest = next(iter(self._connections)) if len(self._connections) > _CONNECTIONS_MAX else None
            if oldest is not None:
                del self._connections[oldest]
        if oldest is not None:
            _shut_down(oldest)  # its thread then reads the end and closes the connection
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect. Show any other error, because it is a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the client closed it already
        return


class _RequestBytes(io.RawIOBase):
    """The bytes of a request. Raises ``TimeoutError``, which ends the request, beyond the time or size limit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + _REQUEST_TIMEOUT_S
        self._left = _REQUEST_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0 or self._left <= 0:
            raise TimeoutError("the request takes too long, or is too large")
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


def _not_found(pages: Iterable[str]) -> tuple[int, str, bytes]:
    return 404, "text/plain", f"there is {', '.join(pages)}\n".encode()


def _handler(pages: dict[str, Callable[[], tuple[int, str, bytes]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            super().setup()
            self.rfile.close()
            self.rfile = io.BufferedReader(_RequestBytes(self.connection))

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            code, kind, body = _not_found(pages) if page is None else page()
            self.connection.settimeout(_REQUEST_TIMEOUT_S)  # for the whole answer
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: probes come every few seconds."""

    return Handler
