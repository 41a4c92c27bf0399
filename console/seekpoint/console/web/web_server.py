"""Run a console until a signal stops it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import uvicorn

from seekpoint.console.services.http_serving import listen, server_config
from seekpoint.console.web.app import make_app, make_parts
from seekpoint.console.web.routes import OPERATIONS

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.console_options import ConsoleOptions
    from seekpoint.console.web.parts import ConsoleParts
    from seekpoint.console.web.route_declarations import Operation


class _ConsoleServer(uvicorn.Server):
    """A server that ends the streams of viewers first: otherwise it would wait until they go."""

    def __init__(self, config: uvicorn.Config, parts: ConsoleParts) -> None:
        super().__init__(config)
        self._parts = parts

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._parts.close_streams()
        await super().shutdown(sockets)


def run_console(
    target: CommandTarget,
    options: ConsoleOptions,
    local_user: str,
    on_ready: Callable[[str], object],
    on_server: Callable[[uvicorn.Server], object] = lambda server: None,
    operations: Sequence[Operation] = OPERATIONS,
) -> None:
    """Serve until SIGTERM or Ctrl-C. ``on_ready`` receives the address. Raises ``InvalidSetting``.

    ``on_server`` receives the server, so that another thread can stop it. ``operations`` are the calls of its API.
    """
    options.check()
    listening = listen(options.host, options.port, "the console")
    address = listening.getsockname()
    options = msgspec.structs.replace(options, port=address[1])

    async def serve() -> None:
        parts = make_parts(target, options, local_user)
        server = _ConsoleServer(server_config(make_app(parts, options, operations)), parts)
        on_server(server)
        on_ready(f"{options.address}/")
        await server.serve(sockets=[listening])

    try:
        asyncio.run(serve())
    finally:
        listening.close()
