"""A program that serves MCP over HTTP, whose tool pays: ``mcp_shop_program.py PORT LEDGER JOURNAL_URL``.

The ledger gets a line for each call of the tool, for each step and payment of it, and for each event once it is stored.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import JSONRPCMessage

from call_ledger import Ledger
from mcp_program import serve
from seekpoint import Effect, Node, Settings
from seekpoint.adapters.mcp import SeekpointEventStore
from seekpoint.errors import EffectUnknown

__all__ = ["PARTS"]

PARTS = 3
note = Ledger().note
store_event = SeekpointEventStore.store_event


async def look(number: int, part: int) -> int:
    """Look something up."""
    note(f"look-{number}-{part}")
    await asyncio.sleep(0.002)
    return part


async def pay(number: int) -> str:
    """Pay."""
    note(f"pay-{number}")
    await asyncio.sleep(0.002)
    return f"paid {number}"


async def noted(self: SeekpointEventStore, stream_id: str, message: JSONRPCMessage | None) -> str:
    """Store an event, and note that it is acknowledged."""
    event_id = await store_event(self, stream_id, message)
    note(f"stored-{stream_id}/{event_id}")
    return event_id


def make_shop(node: Node) -> MCPServer[Any]:
    """Return a server whose tool does its work as a process: what is recorded is not done again."""
    server = MCPServer("shop")

    @server.tool()
    async def order(number: int, request: str, ctx: Context[Any]) -> str:
        """Look at each part, report it, and pay at most once."""
        note(f"called-{request}")
        async with node.open(f"order-{number}", wait_s=30) as process:
            for part in range(PARTS):
                await process.step("look", look, number, part)
                await ctx.report_progress(part + 1, PARTS)
            try:
                paid: str = await process.effect("pay", pay, number, semantics=Effect.AT_MOST_ONCE)
            except EffectUnknown:
                return f"unknown {number}"
            return paid

    return server


async def main(port: int, journal_url: str) -> None:
    """Serve until the program is killed."""
    SeekpointEventStore.store_event = noted  # type: ignore[method-assign]
    async with Node.connect(Settings(journal_url=journal_url)) as node:
        await serve(make_shop(node), node, port)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[3]))
