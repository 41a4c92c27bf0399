"""The service behind ``seekpoint worker``: a worker with its health and its metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack

import typer

from seekpoint.console.render.output import announce, clean, counted
from seekpoint.console.services.arguments.import_path import import_module_here, import_object
from seekpoint.console.services.daemons.termination import on_stop
from seekpoint.producers import Agent, Worker
from seekpoint.producers.health.worker_health import WorkerHealth, worker_families
from seekpoint.schemas.values.near_names import did_you_mean

_LOOK_INTERVAL_S, _JOINING_INTERVAL_S = 1.0, 0.2
_ASSIGNMENT_S = 10.0
"""After how long a worker without a partition says that it has joined: there may be more workers than partitions."""
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


def limits_of(texts: Sequence[str], agents: Sequence[Agent]) -> dict[str, int]:
    """Return the limits in texts such as ``triage=5``. Raises ``BadParameter``, also for a name that no agent has."""
    names = {agent.name for agent in agents}
    limits = {}
    for text in texts:
        name, _, count = text.rpartition("=")
        if not name or not count.isdigit() or int(count) < 1:
            raise typer.BadParameter(f"{text!r} is not AGENT=N", param_hint="--concurrency")
        if name not in names:
            known = did_you_mean(name, names, f"there are {', '.join(sorted(names))}")
            raise typer.BadParameter(f"no agent here is called {name!r}: {known}", param_hint="--concurrency")
        limits[name] = int(count)
    return limits


class WorkerService:
    """A worker that runs until SIGTERM or Ctrl-C. A second signal ends the drain."""

    def __init__(self, worker: Worker, drain_s: float) -> None:
        self._worker = worker
        self._drain_s = drain_s
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stopped_at_s: float | None = None
        self._is_start_cancelled = False
        self.is_cut_off = False
        """Whether runs were released before they ended. Plain functions continue in their threads."""

    async def run(self, host: str, port: int | None) -> None:
        """Run the worker, with a health port unless ``port`` is None. Raises the worker's error."""
        on_stop(self._request_stop)
        worker, health = self._worker, WorkerHealth(self._worker)
        with ExitStack() as stack:
            if port is not None:
                from seekpoint.console.services.daemons.announced_health_port import AnnouncedHealthPort

                stack.enter_context(AnnouncedHealthPort(host, port, health, lambda: worker_families(health)))
            self._running = asyncio.create_task(worker.run(self._stop))
            watching = asyncio.create_task(self._watch(health))
            try:
                await self._running
            except asyncio.CancelledError:
                if not self._is_start_cancelled:
                    raise
            finally:
                watching.cancel()
        if self._stopped_at_s is not None and time.monotonic() - self._stopped_at_s >= self._drain_s:
            self.is_cut_off = True
        said = f"stopped; {counted(worker.finished, 'run')} finished, {worker.failed} failed"
        announce("stopped", said, finished=worker.finished, failed=worker.failed)

    def _request_stop(self) -> None:
        """Drain at the first signal, and release the runs at the second one. A start that hangs is cancelled."""
        if self._stop.is_set():
            if not self.is_cut_off:
                self.is_cut_off = True
                count = len(self._worker.running)
                announce("releasing", f"releasing {counted(count, 'run')}", running=count)
                self._worker.end_drain()
            return
        self._stop.set()
        if not self._worker.polls and self._running is not None:  # Kafka may not answer
            self._is_start_cancelled = True
            self._running.cancel()
        elif running := len(self._worker.running):
            self._stopped_at_s = time.monotonic()
            said = f"draining: {counted(running, 'run')} under way; a second signal releases them"
            announce("draining", said, running=running)
        else:
            announce("draining", "draining: no run is under way", running=0)

    async def _watch(self, health: WorkerHealth) -> None:
        """Watch the worker's health, and say once that it has joined its group."""
        worker, is_told, read_at_s = self._worker, False, float("inf")
        while True:
            health.look()
            now_s = time.monotonic()
            read_at_s = min(read_at_s, now_s if worker.polls else read_at_s)
            if not is_told and (worker.assigned or now_s - read_at_s > _ASSIGNMENT_S):
                is_told = True
                self._say_joined()
            await asyncio.sleep(_LOOK_INTERVAL_S if is_told else _JOINING_INTERVAL_S)

    def _say_joined(self) -> None:
        worker, names = self._worker, sorted(self._worker.agents)
        node_id, journal = worker.node.node_id, worker.node.settings.journal
        announce(
            "started",
            f"node {node_id} runs {clean(', '.join(names))} for {counted(len(worker.assigned), 'partition')} of journal"
            f" {journal}, group {clean(worker.group)}; Ctrl-C stops it",
            node_id=node_id,
            journal=journal,
            group=worker.group,
            agents=names,
        )
