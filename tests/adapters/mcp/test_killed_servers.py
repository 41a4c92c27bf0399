"""Servers of MCP that are killed with -9 while they send, by an outside ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_kills import KilledServers, call_with_kills


async def _kill(tmp_path: Path, kills: int, seed: int) -> KilledServers:
    """No acknowledged event is lost, none comes twice, and the tools do their work as often as they say."""
    run = await call_with_kills(f"sqlite:///{tmp_path / 'journal.db'}", tmp_path, kills=kills, seed=seed)
    times = sorted(run.first_events_s)
    print(run, "next event: p50", times[len(times) // 2 :][:1], "slowest", times[-1:])
    assert run.wrong == []
    assert run.kills == kills
    assert run.resumed >= kills // 10
    return run


async def test_a_client_goes_on_although_servers_are_killed(tmp_path: Path) -> None:
    """Two kills."""
    await _kill(tmp_path, 2, 1)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_servers_are_killed_fifty_times(tmp_path: Path) -> None:
    """At random moments. The next event comes within a second of a server that listens."""
    run = await _kill(tmp_path, 50, 3)
    assert max(run.first_events_s) <= 1.0
