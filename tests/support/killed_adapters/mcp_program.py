"""A program that serves MCP over HTTP, with its sessions in a journal: ``mcp_program.py PORT [JOURNAL_URL]``.

Without an address of a file the journal is that of the environment's settings. The tool ``steps`` reports each step
once a file with its number is in the folder. The program prints a line when it listens.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from seekpoint import Node, Settings
from seekpoint.adapters.mcp import streamable_http_app

__all__ = ["make_server"]


async def until_there(path: Path) -> None:
    """Wait for a file."""
    while not path.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)


def make_server() -> MCPServer[Any]:
    """Return a server with some tools."""
    server = MCPServer("steps")

    @server.tool()
    async def steps(count: int, folder: str, ctx: Context[Any]) -> str:
        """Report each step when its file is there."""
        for number in range(1, count + 1):
            await until_there(Path(folder) / str(number))
            await ctx.report_progress(number, count)
        return f"{count} steps"

    @server.tool()
    async def large(characters: int) -> str:
        """Return a long text."""
        return "ä\n" * (characters // 2)

    @server.tool()
    async def polled(folder: str, ctx: Context[Any]) -> str:
        """Close the stream, and answer when the file is there."""
        await ctx.close_sse_stream()
        await until_there(Path(folder) / "done")
        return "polled"

    return server


async def serve(server: MCPServer, node: Node, port: int) -> None:
    """Serve until the program is ended; say when it listens."""
    app = streamable_http_app(server, node, retry_interval=50)
    running = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="on"))
    serving = asyncio.create_task(running.serve())
    while not running.started and not serving.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print("listening", flush=True)
    await serving


async def main(port: int, journal_url: str | None) -> None:
    """Serve until the program is ended."""
    settings = Settings.load() if journal_url is None else Settings(journal_url=journal_url)
    async with Node.connect(settings) as node:
        await serve(make_server(), node, port)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
