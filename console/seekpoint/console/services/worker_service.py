"""The service behind ``seekpoint worker``: a worker with its health and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from seekpoint.console.render.output import clean, counted, say
from seekpoint.console.services.import_path import import_module_here, import_object
from seekpoint.console.services.termination import on_stop
from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.producers import Agent, Worker

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.schemas.config.settings import Settings

__all__ = ["WorkerHealth", "WorkerService", "agents_in", "limits_of", "worker_families"]

_POLL_INTERVAL_S = 1.0
_FORM = "MODULE[:AGENT]"


def agents_in(names: Sequence[str]) -> list[Agent]:
    """Return the agents that ``module:agent`` names, or all agents of ``module``.

    Raises ``BadParameter`` if an import fails, if nothing there is an agent, or if two agents have one name.
    """
    found: dict[str, Agent] = {}
    for name in names:
        for agent in _agents(name):
            if found.setdefault(agent.name, agent) is not agent:
                raise typer.BadParameter(f"two agents are called {agent.name!r}", param_hint=_FORM)
    return list(found.values())


def _agents(name: str) -> list[Agent]:
    if ":" in name:
        named = import_object(name, _FORM, _FORM)
        if not isinstance(named, Agent):
            raise typer.BadParameter(f"{name} is a {type(named).__name__}, not an agent", param_hint=_FORM)
        return [named]
    module = import_module_here(name, _FORM)
    agents = [one for one in vars(module).values() if isinstance(one, Agent)]
    if not agents:
        raise typer.BadParameter(f"{name} has no agent: put @agent(NAME) above a function", param_hint=_FORM)
    return agents


def limits_of(texts: Sequence[str]) -> dict[str, int]:
    """Return the limits in texts such as ``triage=5``. Raises ``BadParameter``."""
    limits = {}
    for text in texts:
        name, _, count = text.rpartition("=")
        if not name or not count.isdigit() or int(count) < 1:
            raise typer.BadParameter(f"{text!r} is not AGENT=N", param_hint="--concurrency")
        limits[name] = int(count)
    return limits


class WorkerHealth(ProgressHealth):
    """The health of a worker: healthy while it reads the inbox, however long its runs take."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self._seen = 0

    def look(self) -> None:
        """Record the worker's progress. Call it about every second."""
        if self.worker.polls > self._seen:
            self._seen = self.worker.polls
            self.observe(len(self.worker.ready))
            self.progress()


class WorkerService:
    """A worker that runs until SIGTERM or Ctrl-C. A second signal ends the drain."""

    def __init__(self, settings: Settings, agents: Sequence[Agent], **options: Any) -> None:
        self._worker = Worker(agents, settings, **options)
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()

    async def run(self, host: str, port: int | None) -> None:
        """Run the worker, with a health port unless ``port`` is None. Raises the worker's error."""
        worker, health = self._worker, WorkerHealth(self._worker)
        on_stop(self._request_stop)
        with ExitStack() as stack:
            if port is not None:
                from seekpoint.console.services.health_port import HealthPort

                stack.enter_context(HealthPort(host, port, health, lambda: worker_families(health)))
            running = asyncio.create_task(worker.run(self._stop))
            telling = asyncio.create_task(self._tell(health))
            cutting = asyncio.create_task(self._stop_now.wait())
            try:
                await asyncio.wait({running, cutting}, return_when=asyncio.FIRST_COMPLETED)
                if cutting.done():
                    worker.end_drain()
                await running
            finally:
                telling.cancel()
                cutting.cancel()
        say(f"stopped; {counted(worker.finished, 'run')} finished, {worker.failed} failed")

    async def _tell(self, health: WorkerHealth) -> None:
        """Say when the worker has joined, and when it drains; watch its health."""
        worker = self._worker
        while not worker.assigned and not self._stop.is_set():
            health.look()
            await asyncio.sleep(0.1)
        names = clean(", ".join(sorted(worker.agents)))
        if worker.assigned:
            say(
                f"node {worker.node.node_id} runs {names} for {counted(len(worker.assigned), 'partition')} of journal"
                f" {worker.node.settings.journal}, group {worker.group}; Ctrl-C stops it"
            )
        is_told = False
        while True:
            health.look()
            if self._stop.is_set() and not is_told:
                is_told = True
                say(f"draining: {counted(len(worker.running), 'run')} under way; a second signal releases them")
            await asyncio.sleep(_POLL_INTERVAL_S / 5)

    def _request_stop(self) -> None:
        (self._stop_now if self._stop.is_set() else self._stop).set()


def worker_families(health: WorkerHealth) -> Iterator[Metric]:
    """Yield the metrics of a worker. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    worker, name = health.worker, "seekpoint_worker"
    runs = CounterMetricFamily(f"{name}_runs", "Runs that ended here.", labels=["outcome"])
    ended: Mapping[str, int] = {"finished": worker.finished, "failed": worker.failed, "cancelled": worker.cancelled}
    for outcome, count in ended.items():
        runs.add_metric([outcome], count)
    yield runs
    yield GaugeMetricFamily(f"{name}_running", "Runs in memory.", len(worker.running))
    yield GaugeMetricFamily(f"{name}_ready", "Runs that wait for room.", len(worker.ready))
    yield GaugeMetricFamily(f"{name}_waiting", "Processes that wait for a moment or for mail.", len(worker.waiting))
    yield GaugeMetricFamily(f"{name}_partitions", "Partitions that are assigned here.", len(worker.assigned))
    yield GaugeMetricFamily(f"{name}_stalled_seconds", "Seconds since the inbox was last read.", health.stalled_s)
