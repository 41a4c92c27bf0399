"""Tools of MCP servers in durable runs. They need ``fastmcp-slim[client]``, as the extra ``mcp`` of Pydantic AI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

import shop_mcp_server
from scripted_pydantic_agents import called, said, scripted
from seekpoint import Effect, MemoryLog, Node, Process, agent
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable
from seekpoint.testing import assert_replays, history_of

transports = pytest.importorskip(
    "fastmcp.client.transports", reason="ten more packages, not in the extra dev: pip install 'fastmcp-slim[client]'"
)
pytestmark = pytest.mark.long


async def test_discovery_and_calls_are_recorded(tmp_path: Path) -> None:
    """The calls as effects if ``effects`` names the tool. A replay does not start the server."""
    from pydantic_ai.mcp import MCPToolset

    ledger = tmp_path / "ledger"

    def build(program: str) -> Any:
        transport = transports.StdioTransport(program, [str(shop_mcp_server.__file__), str(ledger)])
        one = Agent(
            scripted("main", {0: [called("look", "c1", order="o1")], 1: said("done")}), name="main",
            toolsets=[MCPToolset(transport, id="shop", include_instructions=True)],
            capabilities=[SeekpointDurability(effects={"look": Effect.AT_MOST_ONCE})],
        )  # fmt: skip

        @agent("asks")
        async def asks(process: Process, wish: str) -> str:
            with durable(process, one):
                return (await one.run(wish)).output

        return asks

    log = MemoryLog()
    async with Node.in_memory(log) as node:
        assert await node.run(build(sys.executable), "case-1", "hello") == "done"
    bodies: list[Any] = [entry.body for entry in history_of(log, "case-1")]
    keys = [body.key.rpartition("/")[2] for body in bodies if body.KIND in ("step_ended", "effect_settled")]
    assert {"shop tools:1", "shop instructions:1", "look:1"} <= set(keys)
    assert "Ask before you pay" in next(body.request for body in bodies if body.KIND == "decision_started")
    await assert_replays(build("no-such-program"), history_of(log, "case-1"))
    assert ledger.read_text() == "o1\n"
