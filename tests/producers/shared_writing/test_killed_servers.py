"""Servers that write to shared processes on a real Kafka are killed with -9: nothing acknowledged is lost or stale."""

from __future__ import annotations

import pytest

from load_balancer import LoadBalancer
from seekpoint.schemas.config.settings import Settings


@pytest.mark.cluster
async def test_killed_servers_lose_no_acknowledged_write(journal: Settings) -> None:
    """Two servers, thirty threads, every request to any server, one killed every 1.5 seconds."""
    balancer = LoadBalancer(journal, servers=2, threads=30, clients=12, seed=7)
    report = await balancer.run(for_s=6.0, kill_every_s=1.5)
    assert report.wrong == []
    assert report.errors == []
    assert report.kills >= 2
    assert report.lost > 0
    assert report.requests > 100


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(3))
async def test_a_thousand_threads_on_servers_that_are_killed(journal: Settings, seed: int) -> None:
    """Two servers, one killed every five seconds for a minute, and more clients than a server answers at once."""
    balancer = LoadBalancer(journal, servers=2, threads=1_000, clients=100, seed=seed)
    report = await balancer.run(for_s=60.0, kill_every_s=5.0)
    print(report)
    assert report.wrong == []
    assert report.errors == []
    assert report.kills >= 9
    assert report.lost > 0
