"""``seekpoint serve projector | recovery | dispatcher | reactors``: run a service of the journal in the foreground."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from seekpoint.console.render.output import announce
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.console.services.daemons.projector_health import ProjectorHealth
    from seekpoint.console.services.daemons.sweeping import SweepingService
    from seekpoint.consumers.projector.projector import Projector
    from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.console.services.arguments.options import AsJson, HealthHost, HealthPortNumber
from seekpoint.console.services.daemons.service_metrics import reactor_families, reactors_in, recovery_families

S = TypeVar("S", "RecoveryService", "SweepingService")

_POLL_INTERVAL_S = 1.0


def projector(
    target: CommandTarget,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
    json: AsJson = False,  # output.announce knows it
) -> None:
    """Keep the view and the checkpoints up to date. Stops at SIGTERM or Ctrl-C."""
    import asyncio

    from seekpoint.console.services.daemons.projector_health import ProjectorHealth, projector_families
    from seekpoint.consumers.projector.heap import spare_collections
    from seekpoint.consumers.projector.projector import Projector

    worker, health = Projector(target.reachable()), ProjectorHealth()
    spare_collections()

    async def run() -> None:
        with ExitStack() as stack:
            if health_port is not None:
                from seekpoint.console.services.daemons.announced_health_port import AnnouncedHealthPort

                port = AnnouncedHealthPort(health_host, health_port, health, lambda: projector_families(health))
                stack.enter_context(port)
            await _run_projector(worker, health)

    asyncio.run(run())


async def _run_projector(worker: Projector, health: ProjectorHealth) -> None:
    """Run until a stop signal, and report the lag to ``health``."""
    import asyncio

    from seekpoint.console.services.daemons.termination import on_stop

    on_stop(worker.stop)
    journal = worker.settings.journal
    announce("started", f"projecting journal {journal}; Ctrl-C stops it", journal=journal)
    running = asyncio.create_task(worker.run())
    while not running.done():
        health.look(worker.lag(), is_lost=worker.is_lost)
        await asyncio.wait({running}, timeout=_POLL_INTERVAL_S)
    await running


def recovery(
    target: CommandTarget,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
    json: AsJson = False,  # output.announce knows it
) -> None:
    """Answer recovery requests. Stops at SIGTERM or Ctrl-C."""
    from seekpoint.consumers.recovery_service.recovery_service import RecoveryService

    def make() -> RecoveryService:
        return RecoveryService(target.require_kafka())

    def greeting(service: RecoveryService) -> str:
        return f"node {service.node_id} answers requests of journal {service.settings.journal}"

    _serve(make, recovery_families, greeting, health_host, health_port)


def reactors(
    target: CommandTarget,
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE[:REACTOR]]...", help="Modules with reactors, or some.", show_default=False),
    ] = None,
    sweep_s: Annotated[
        float,
        typer.Option("--sweep", metavar="SECONDS", min=0, help="Wake what no worker went on with, so often; 0: never."),
    ] = 30.0,
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="The members of a group share the journal's partitions.")
    ] = "reactors",
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Let a new group begin with the journal's first entry.")
    ] = False,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
    json: AsJson = False,
) -> None:
    """Call a user's reactors for the entries of the journal, and sweep. Stops at SIGTERM or Ctrl-C.

    The leader of the group sweeps: it wakes workers for what they missed, which metrics count. That needs Redis.
    """
    from seekpoint.console.services.daemons.sweeping import SweepingService

    found, settings = reactors_in(modules or []), target.require_kafka()

    def make() -> SweepingService:
        return SweepingService(found, settings, group=group, from_beginning=from_beginning, sweep_s=sweep_s)

    def greeting(service: SweepingService) -> str:
        names = [one.name for one in found]
        calls = [f"calls {', '.join(names)}"] if names else []
        does = " and ".join([*calls, *(["sweeps"] if service.sweep is not None else [])])
        return f"group {service.group} {does} for journal {service.settings.journal}"

    _serve(make, reactor_families, greeting, health_host, health_port)


def _serve(
    make: Callable[[], S],
    families: Callable[[S], Iterable[Metric]],
    greeting: Callable[[S], str],
    health_host: str,
    health_port: int | None,
) -> None:
    """Start, run and close a service of Faust, with its health port."""
    import asyncio

    from seekpoint.console.render.logs import show_logs

    show_logs("faust", "mode", "aiokafka")

    async def run() -> None:
        service = make()
        with ExitStack() as stack:
            if health_port is not None:  # before the start: a service that never becomes ready is unhealthy
                from seekpoint.console.services.daemons.announced_health_port import AnnouncedHealthPort

                port = AnnouncedHealthPort(health_host, health_port, service.health, lambda: families(service))
                stack.enter_context(port)
            await _run(service, greeting)

    asyncio.run(run())


async def _run(service: S, greeting: Callable[[S], str]) -> None:
    """Start, run and close the service. A stop signal also ends a start that hangs."""
    import asyncio

    from seekpoint.console.services.daemons.termination import on_stop

    stop = asyncio.Event()
    on_stop(stop.set)
    stopped = asyncio.create_task(stop.wait())
    starting = asyncio.create_task(service.start())
    await asyncio.wait({stopped, starting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    await starting
    try:
        announce("started", f"{greeting(service)}; Ctrl-C stops it", journal=service.settings.journal)
        await service.run(stop)
    finally:
        stopped.cancel()
        await service.close()


def dispatcher(
    target: CommandTarget,
    connectors: Annotated[
        list[str],
        typer.Option("--connectors", metavar="MODULE:NAME", help="A Connectors table or a Connector; may be repeated."),
    ],
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long running calls may take to end.")
    ] = 20.0,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
    json: AsJson = False,
) -> None:
    """Call the effects of outbox connectors, which their owners only record. Stops at SIGTERM or Ctrl-C."""
    import asyncio

    from seekpoint.console.services.daemons.dispatcher_service import DispatcherService, load_connectors
    from seekpoint.console.services.daemons.termination import exit_now

    table = load_connectors(connectors)
    settings = target.reachable()

    async def run() -> None:
        service = DispatcherService(settings, table, grace_s)
        await service.run(health_host, health_port)
        if service.is_cut_off:  # inside the loop: a normal end of the loop would wait for the calls
            exit_now()

    asyncio.run(run())
