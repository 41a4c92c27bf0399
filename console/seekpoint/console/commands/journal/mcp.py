"""``seekpoint mcp``: serve tools that read the journal to a coding agent, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seekpoint.console.render.output import announce, say
from seekpoint.console.services.arguments.options import AsJson
from seekpoint.console.services.arguments.target import CommandTarget


def mcp(
    target: CommandTarget,
    modules: Annotated[
        list[str] | None,
        typer.Option("--module", "-m", metavar="MODULE", help="A module whose agents replay checks may run."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve HTTP of this machine, on this port; 0: any free one.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="With --port: the file of tokens, as the console's.")
    ] = None,
    result_bytes: Annotated[
        int, typer.Option("--result-bytes", metavar="N", min=4_000, help="The most bytes of a result.")
    ] = 40_000,
    json: AsJson = False,
) -> None:
    """Serve read-only tools to a coding agent: over standard input and output, or over HTTP with --port and a token.

    The agent lists processes, their states, calls and entries, compares them, and checks code against recorded runs.
    """
    from seekpoint.adapters.mcp_release import require_mcp
    from seekpoint.schemas.config.extras import require_extra

    require_extra("mcp", "the MCP server", "mcp")
    require_mcp("the MCP server")
    target.reachable()
    import asyncio
    from importlib.metadata import version

    from seekpoint.console.mcp.answerer import Answerer
    from seekpoint.console.mcp.mcp_server import HOST, make_server, serve_http, serve_stdio
    from seekpoint.console.services.http_serving import listen
    from seekpoint.console.web.auth.tokens import token_file

    _connect(target)
    journal = target.settings.journal
    answerer = Answerer(target, modules or (), bytes_max=result_bytes)
    server = make_server(answerer, journal, version("seekpoint"))
    if port is None:
        say(f"journal {journal}: waits for an MCP client on standard input; docs/guides/mcp.md says how to register it")
        asyncio.run(serve_stdio(server))
    else:
        allowed = token_file(tokens)
        allowed.tokens()  # a missing or damaged file is an error now, not at the first request
        with listen(HOST, port, "the MCP server") as listening:
            address = f"http://{HOST}:{listening.getsockname()[1]}/mcp"
            announce("ready", f"journal {journal} at {address}; Ctrl-C stops it", journal=journal, address=address)
            asyncio.run(serve_http(server, listening, allowed))
    if answerer.is_reading:
        from seekpoint.console.services.daemons.termination import exit_now

        exit_now()  # a client that has gone waits for nothing


def _connect(target: CommandTarget) -> None:
    """Make the readers before the first call, so that calls in several threads share them."""
    _ = (target.log, target.dead_letters, target.checkpoints, target.view, target.recoverer)
