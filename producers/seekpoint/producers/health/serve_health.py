"""Serve the probes and the metrics of a program that runs agents.

async with Node.connect() as node, serve_health(node, port=8080):
    ...
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S
from seekpoint.producers.health.node_health import NodeHealth, node_page
from seekpoint.producers.health.worker_health import WorkerHealth, worker_families
from seekpoint.producers.node import Node, runtime_of
from seekpoint.schemas.errors import InvalidSetting, Refused

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.consumers.heartbeats.health_port import HealthPort
    from seekpoint.producers.health.parts_health import PartsHealth
    from seekpoint.producers.sync import SyncNode
    from seekpoint.producers.worker.agent_worker import Worker

logger = logging.getLogger("seekpoint.producers")

_LOOK_INTERVAL_S = 0.5


def serve_health(
    program: Node | Worker | SyncNode, *, port: int, host: str = "127.0.0.1", stall_max_s: float = STALL_MAX_S
) -> HealthServer:
    """Serve ``/livez``, ``/readyz`` and ``/metrics`` of a node or worker while the block runs.

    ``async with serve_health(worker, port=8080), worker: ...`` also answers while the worker starts and drains. Around
    a ``SyncNode`` that is open: ``with SyncNode.connect() as node, serve_health(node, port=8080)``. Port 0 takes any
    free one, which ``port`` of the result names. A part that makes no progress for ``stall_max_s`` seconds turns
    ``/livez`` to 503. The port has no authentication. Raises ``InvalidSetting`` if it cannot be used.
    """
    return HealthServer(program, host, port, stall_max_s)


class HealthServer:
    """The health port of one program, for use in ``async with``, or in ``with`` around a ``SyncNode``."""

    def __init__(self, program: Any, host: str, port: int, stall_max_s: float) -> None:
        self._program = program
        self._stall_max_s = stall_max_s
        self.host = host
        """The address that the port is open at."""
        self.port = port
        """The number of the port; with 0, that of the free port once it is open."""
        self._served: HealthPort | None = None
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> HealthServer:
        if _calls_of(self._program) is not None:
            raise Refused(
                "a SyncNode is not async", hint="with SyncNode.connect() as node, serve_health(node, port=...)"
            )
        await self._start(self._program)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    def __enter__(self) -> HealthServer:
        calls = _calls_of(self._program)
        if calls is None:
            raise Refused(
                "only an open SyncNode is served in a with block",
                hint="async with serve_health(node, port=...); or open the SyncNode before",
            )
        calls(partial(self._start, self._program._target))
        return self

    def __exit__(self, *_: object) -> None:
        calls = _calls_of(self._program)
        assert calls is not None
        calls(self._close)

    async def _start(self, program: Node | Worker) -> None:
        from seekpoint.consumers.heartbeats.health_port import HealthPort  # with prometheus-client: 140 ms

        health, families = _health_of(program, self._stall_max_s)
        self._served = await asyncio.to_thread(HealthPort, self.host, self.port, health, families)
        self._served.__enter__()
        self.port = self._served.port
        self._looking = asyncio.create_task(_look(health), name="seekpoint-health")
        logger.info("health on http://%s:%d/livez, /readyz and /metrics", self.host, self.port)

    async def _close(self) -> None:
        served, looking, self._served, self._looking = self._served, self._looking, None, None
        try:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
        finally:
            if served is not None:
                await asyncio.to_thread(served.__exit__)


def _calls_of(program: Any) -> Any:
    """Return what calls into the loop of a ``SyncNode`` that is open; None for any other program."""
    return getattr(program, "_calls", None)


def _health_of(program: Node | Worker, stall_max_s: float) -> tuple[PartsHealth, Callable[[], Iterable[Metric]]]:
    if isinstance(program, Node):
        node = NodeHealth(runtime_of(program), stall_max_s)
        return node, partial(node_page, node)
    if not hasattr(program, "progress"):
        raise InvalidSetting(f"a node or a worker has a health, {type(program).__name__} has none", setting="program")
    worker = WorkerHealth(program, stall_max_s)
    return worker, partial(worker_families, worker)


async def _look(health: PartsHealth) -> None:
    while True:
        health.look()
        await asyncio.sleep(_LOOK_INTERVAL_S)
