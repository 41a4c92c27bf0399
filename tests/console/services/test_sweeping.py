"""The sweep on a real Faust app, Kafka and Redis. ``test_sweep.py`` has its rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from seekpoint.console.services.daemons.service_metrics import reactor_families
from seekpoint.console.services.daemons.sweeping import SweepingService
from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.producers.worker.partition_watch import PartitionWatch
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

PATIENCE_S = 60.0


@agent("sleeper")
async def sleeper(process: Process, seconds: float) -> str:
    await process.sleep(seconds)
    return await process.step("wake", lambda: "awake")


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def swept(service: SweepingService) -> dict[str, float]:
    families = {one.name: one for one in reactor_families(service)}
    return {sample.labels["reason"]: sample.value for sample in families["seekpoint_swept"].samples}


async def test_the_leader_wakes_what_a_worker_missed(journal: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; what the worker does by itself is not counted."""
    async with (
        Node.connect(journal, projector=True),
        Worker([sleeper], journal, grace_s=0.1) as worker,
        Client.connect(journal) as client,
        SweepingService([], journal, sweep_s=0.5, margin_s=3.0) as service,
    ):
        sweep = service.sweep
        assert sweep is not None
        running = asyncio.create_task(service.run())
        try:
            assert await (await client.submit(sleeper, "case-1", 2.0)).result(PATIENCE_S) == "awake"
            monkeypatch.setattr(PartitionWatch, "due", lambda self, now_us: [])
            run = await client.submit(sleeper, "case-2", 2.0)
            await until(lambda: worker.status().waiting == 1)
            assert await run.result(PATIENCE_S) == "awake"
            assert swept(service) == {"moment": 1.0, "mail": 0.0, "run": 0.0, "schedule": 0.0}
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_without_redis_there_is_no_sweep(journal: Settings) -> None:
    """And without a reactor nothing else to do."""
    from dataclasses import replace

    with pytest.raises(InvalidSetting, match="no reactor is given"):
        SweepingService([], replace(journal, redis_url=None))
    with pytest.raises(InvalidSetting, match="no reactor is given"):
        SweepingService([], journal, sweep_s=0)
