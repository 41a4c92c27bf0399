"""The service behind ``seekpoint serve dispatcher``: a dispatcher with its health and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import typer

from seekpoint.console.render.output import announce, clean, counted, warn
from seekpoint.console.services.arguments.import_path import import_object
from seekpoint.console.services.daemons.termination import on_stop
from seekpoint.console.services.facts.node_facts import DISPATCHER_PREFIX
from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.producers import Connector, Connectors, Dispatcher, Node

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.schemas.config.settings import Settings

_POLL_INTERVAL_S = 1.0
_OPTION = "--connectors"


def load_connectors(names: list[str]) -> Connectors:
    """Import connectors, each named ``module:name``, into one table.

    Raises ``BadParameter`` if an import fails, if an object is not a connector, if two connectors have the same name,
    or if no connector uses the outbox.
    """
    known = Connectors()
    for name in names:
        for connector in _connectors(name):
            if connector.name in known and known[connector.name] is not connector:
                raise typer.BadParameter(f"two connectors are called {connector.name!r}", param_hint=_OPTION)
            known.register(connector)
    if not known.outbox:
        found = ", ".join(sorted(one.name for one in known)) or "none at all"
        raise typer.BadParameter(f"no connector with outbox=True there: found {found}", param_hint=_OPTION)
    return known


def _connectors(name: str) -> list[Connector]:
    found = import_object(name, _OPTION)
    if isinstance(found, Connector):
        return [found]
    if isinstance(found, Connectors):
        return [*found]
    raise typer.BadParameter(f"{name} is a {type(found).__name__}, not Connectors or a Connector", param_hint=_OPTION)


class DispatcherHealth(ProgressHealth):
    """The health of a dispatcher: healthy while it keeps reading to the journal's end, however long calls take."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self._seen = 0

    def look(self) -> None:
        """Record the dispatcher's progress. Call it about every second."""
        if self.dispatcher.looks > self._seen:
            self._seen = self.dispatcher.looks
            self.observe(self.dispatcher.waiting)
            self.progress()


class DispatcherService:
    """A dispatcher that runs until SIGTERM or Ctrl-C. A second signal also ends running calls."""

    def __init__(self, settings: Settings, known: Connectors, grace_s: float) -> None:
        # Under the name of a running node its heartbeat would release the processes of that node.
        self._settings = replace(settings, node_id=f"{DISPATCHER_PREFIX}{uuid4().hex[:12]}")
        self._known = known
        self._grace_s = grace_s
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self.is_cut_off = False
        """Whether calls were running at the end. Synchronous functions continue in their threads."""

    async def run(self, host: str, port: int | None) -> None:
        """Run the dispatcher, with a health port unless ``port`` is None. Raises the dispatcher's error."""
        on_stop(self._request_stop)
        node = Node.connect(self._settings)
        try:
            if await self._started(node):
                await self._dispatch(node, host, port)
        finally:
            await node.close()

    async def _started(self, node: Node) -> bool:
        """Start the node. Return False if a stop signal came first, which can happen while Kafka does not answer."""
        starting, stopped = asyncio.create_task(node.start()), asyncio.create_task(self._stop.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return False
        await starting
        return True

    async def _dispatch(self, node: Node, host: str, port: int | None) -> None:
        dispatcher = Dispatcher(node, known=self._known)
        health = DispatcherHealth(dispatcher)
        with ExitStack() as stack:
            if port is not None:
                from seekpoint.console.services.daemons.announced_health_port import AnnouncedHealthPort

                stack.enter_context(AnnouncedHealthPort(host, port, health, lambda: dispatcher_families(health)))
            async with dispatcher:
                await self._run_until_stop(dispatcher, health, node.node_id)
                await self._drain(dispatcher)
        count = dispatcher.dispatched
        announce("stopped", f"stopped; {counted(count, 'outcome')} recorded", outcomes=count)

    def _request_stop(self) -> None:
        (self._stop_now if self._stop.is_set() else self._stop).set()

    async def _run_until_stop(self, dispatcher: Dispatcher, health: DispatcherHealth, node_id: str) -> None:
        names, journal = list(self._known.outbox), self._settings.journal
        said = f"node {node_id} dispatches {clean(', '.join(names))} of journal {journal}; Ctrl-C stops it"
        announce("started", said, node_id=node_id, journal=journal, connectors=names)
        while not self._stop.is_set() and dispatcher.failure is None:
            health.look()
            await _wait_for(self._stop, _POLL_INTERVAL_S)

    async def _drain(self, dispatcher: Dispatcher) -> None:
        """Wait for running calls to end. The effect of an interrupted call stays in doubt."""
        draining = asyncio.create_task(dispatcher.drain(self._grace_s))
        again = asyncio.create_task(self._stop_now.wait())
        await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        draining.cancel()
        self.is_cut_off = dispatcher.calling > 0
        if self.is_cut_off:
            warn(f"{counted(dispatcher.calling, 'call')} interrupted: the next dispatcher finds their effects in doubt")


async def _wait_for(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return


def dispatcher_families(health: DispatcherHealth) -> Iterator[Metric]:
    """Yield the metrics of a dispatcher. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    dispatcher, name = health.dispatcher, "seekpoint_dispatcher"
    yield CounterMetricFamily(f"{name}_outcomes", "Outcomes sent to the owners.", dispatcher.dispatched)
    yield GaugeMetricFamily(f"{name}_waiting_intents", "Intents without an outcome.", dispatcher.waiting)
    text = "Seconds since the journal was last read to its end."
    yield GaugeMetricFamily(f"{name}_stalled_seconds", text, health.stalled_s)
