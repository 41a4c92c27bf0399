"""``/healthz`` and ``/metrics`` of a service, on a port of its own, from the standard library's server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.console.output import say
from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["HealthPort", "Wellbeing"]


class Wellbeing(Protocol):
    """What is asked of a service's health: whether it is well, what waits, and for how long nothing was done."""

    @property
    def is_well(self) -> bool: ...

    @property
    def lag(self) -> int | None: ...

    @property
    def stalled_s(self) -> float: ...


class HealthPort:
    """``with HealthPort(host, port, health, families)``: 200 while ``health`` is well, else 503; both with JSON.

    ``families`` gives the metrics as of now. Port 0 takes any that is free; ``port`` says which. Raises
    ``InvalidSetting`` if it is taken.
    """

    def __init__(self, host: str, port: int, health: Wellbeing, families: Callable[[], Iterable[Metric]]) -> None:
        from prometheus_client import CollectorRegistry, generate_latest  # 140 ms

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(families))
        pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _healthz(health),
            "/metrics": lambda: (200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(registry)),
        }
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(pages))
        except (OSError, OverflowError) as exc:
            raise InvalidSetting(f"the health port cannot be used: {exc}", hint="choose another --health-port") from exc
        self._server.daemon_threads = True
        self.host, self.port = host, int(self._server.server_address[1])

    def __enter__(self) -> HealthPort:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health-port", daemon=True).start()
        say(f"health on http://{self.host}:{self.port}/healthz, metrics on /metrics")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _healthz(health: Wellbeing) -> tuple[int, str, bytes]:
    well = health.is_well
    facts = {"ok": well, "lag": health.lag, "stalled_s": round(health.stalled_s, 3)}
    return 200 if well else 503, "application/json", json.dumps(facts).encode()


class _Collector:
    """What prometheus-client calls at each scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self.collect = families


def _handler(pages: dict[str, Callable[[], tuple[int, str, bytes]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            code, kind, body = (404, "text/plain", b"/healthz or /metrics\n") if page is None else page()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """A probe every few seconds is no news."""

    return Handler
