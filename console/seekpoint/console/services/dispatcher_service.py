"""What ``seekpoint serve dispatcher`` runs: a dispatcher until it is told to stop, its health and its metrics."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import typer

from seekpoint.console.render.output import clean, counted, say, warn
from seekpoint.console.services.import_path import import_object
from seekpoint.console.services.stopping import on_stop
from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.producers import Connector, Connectors, Dispatcher, Node

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.schemas.config.settings import Settings

__all__ = ["DispatcherHealth", "Service", "dispatcher_families", "leave_at_once", "load_connectors"]

_LOOK_INTERVAL_S = 1.0
_OPTION = "--connectors"


def load_connectors(names: list[str]) -> Connectors:
    """The connectors that ``names`` (``module:name`` each) stand for, in one table.

    ``BadParameter`` for what cannot be imported or is no connector, for two of one name, and where a dispatcher would
    have nothing to call.
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
    """Well while its dispatcher reads to the journal's end again and again, however long calls take."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self._seen = 0

    def look(self) -> None:
        """To be called every second or so."""
        if self.dispatcher.looks > self._seen:
            self._seen = self.dispatcher.looks
            self.observe(self.dispatcher.waiting)
            self.progress()


class Service:
    """A dispatcher as a program: until SIGTERM or Ctrl-C; once more ends calls that are under way too."""

    def __init__(self, settings: Settings, known: Connectors, grace_s: float) -> None:
        # Under a node's own name its heartbeat would set the processes of that node free.
        self._settings = replace(settings, node_id=f"dispatcher-{uuid4().hex[:12]}")
        self._known = known
        self._grace_s = grace_s
        self._told = asyncio.Event()
        self._told_again = asyncio.Event()
        self.is_cut_off = False
        """Whether calls were under way when it ended: plain functions of them run on in their threads."""

    async def run(self, host: str, port: int | None) -> None:
        """Serve; with a health port unless ``port`` is None. Raises what stopped the dispatcher by itself."""
        on_stop(self._tell)
        node = Node.connect(self._settings)
        try:
            if await self._started(node):
                await self._dispatch(node, host, port)
        finally:
            await node.close()

    async def _started(self, node: Node) -> bool:
        """Whether it started before it was told to stop: a Kafka that is silent may take long."""
        starting, told = asyncio.create_task(node.start()), asyncio.create_task(self._told.wait())
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
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
                from seekpoint.console.services.health_port import HealthPort

                stack.enter_context(HealthPort(host, port, health, lambda: dispatcher_families(health)))
            async with dispatcher:
                await self._until_told(dispatcher, health, node.node_id)
                await self._drain(dispatcher)
        say(f"stopped; {counted(dispatcher.dispatched, 'outcome')} told")

    def _tell(self) -> None:
        (self._told_again if self._told.is_set() else self._told).set()

    async def _until_told(self, dispatcher: Dispatcher, health: DispatcherHealth, node_id: str) -> None:
        names = clean(", ".join(self._known.outbox))
        say(f"node {node_id} dispatches {names} of journal {self._settings.journal}; Ctrl-C stops it")
        while not self._told.is_set() and dispatcher.failure is None:
            health.look()
            await _within(self._told, _LOOK_INTERVAL_S)

    async def _drain(self, dispatcher: Dispatcher) -> None:
        """Let calls under way end: what is cut off stays in doubt."""
        draining = asyncio.create_task(dispatcher.drain(self._grace_s))
        again = asyncio.create_task(self._told_again.wait())
        await asyncio.wait({draining, again}, return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        draining.cancel()
        self.is_cut_off = dispatcher.calling > 0
        if self.is_cut_off:
            warn(f"{counted(dispatcher.calling, 'call')} cut off: the next dispatcher finds what they did in doubt")


def leave_at_once() -> NoReturn:
    """End the program though calls run on: a loop and an interpreter that end in order wait for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _within(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return


def dispatcher_families(health: DispatcherHealth) -> Iterator[Metric]:
    """The metrics of a dispatcher. Never a process id in a label: there are too many, and they are private."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    dispatcher, name = health.dispatcher, "seekpoint_dispatcher"
    yield CounterMetricFamily(f"{name}_outcomes", "Outcomes told to the owners.", dispatcher.dispatched)
    yield GaugeMetricFamily(f"{name}_waiting_intents", "Intents that are not over.", dispatcher.waiting)
    text = "Since the journal was last read to its end."
    yield GaugeMetricFamily(f"{name}_stalled_seconds", text, health.stalled_s)
