"""What every HTTP server of the console shares: where it listens, and how much of it clients can hold.

uvicorn bounds neither the time that a request may take to arrive nor the number of connections.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_CLOSE_TIMEOUT_S = 5
_REQUEST_TIMEOUT_S = 20.0
_CONNECTIONS_MAX = 500
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _BoundedConnection(H11Protocol):
    """A connection that is closed unless each request, head and body, arrives in time; one too many is refused."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS_MAX:
            transport.write(_BUSY)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        is_arriving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not is_arriving:
            self._forget()
        elif self._deadline is None:  # not put off by further bytes, or a byte at a time would hold it for ever
            self._deadline = self.loop.call_later(_REQUEST_TIMEOUT_S, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def server_config(app: ASGIApp) -> uvicorn.Config:
    """Return the settings of a server that tells nothing about itself and logs no addresses with their ids."""
    return uvicorn.Config(
        app, http=_BoundedConnection, log_level="warning", access_log=False, server_header=False, lifespan="on",
        ws="none", timeout_graceful_shutdown=_CLOSE_TIMEOUT_S,
    )  # fmt: skip


def listen(host: str, port: int, server: str) -> socket.socket:
    """Return a socket that listens there; port 0: any free one. Raises ``InvalidSetting``, which names ``server``."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as exc:
        raise InvalidSetting(
            f"{server} cannot listen there: {getattr(exc, 'strerror', None) or exc}", setting="--port",
            found=f"{host}:{port}", hint="another program may have the port: give --port",
        ) from exc  # fmt: skip
    # Connections inherit it. asyncio sets it only where a socket names its protocol, and then each answer but a
    # connection's first would wait 40 ms for an acknowledgement of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
