"""``seekpoint serve ...``: the services of a journal, each in the foreground until it is told to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.command import command, group
from seekpoint.console.render.output import say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.console.services.projector_health import ProjectorHealth
    from seekpoint.consumers.projector.projector import Projector
    from seekpoint.consumers.recovery_service.recovery_service import RecoveryService

__all__ = ["HealthHost", "HealthPortNumber", "register"]

_LOOK_INTERVAL_S = 1.0

HealthPortNumber = Annotated[
    int | None,
    typer.Option("--health-port", metavar="PORT", min=0, max=65535, help="Serve /healthz and /metrics; 0: any port."),
]
HealthHost = Annotated[
    str, typer.Option("--health-host", metavar="HOST", help="The address of that port; 0.0.0.0 for all.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    serve = group(app, "serve", "Run a service of the journal. Start more of them to scale.")
    command(serve, "projector")(projector)
    command(serve, "recovery")(recovery)
    command(serve, "dispatcher")(dispatcher)


def projector(
    target: CommandTarget, health_port: HealthPortNumber = None, health_host: HealthHost = "127.0.0.1"
) -> None:
    """Keep the view and the checkpoints up to date until SIGTERM or Ctrl-C."""
    import asyncio

    from seekpoint.console.services.projector_health import ProjectorHealth, projector_families
    from seekpoint.consumers.projector.heap import spare_collections
    from seekpoint.consumers.projector.projector import Projector

    worker, health = Projector(target.require_kafka()), ProjectorHealth()
    spare_collections()

    async def run() -> None:
        with ExitStack() as stack:
            if health_port is not None:
                from seekpoint.console.services.health_port import HealthPort

                port = HealthPort(health_host, health_port, health, lambda: projector_families(health))
                stack.enter_context(port)
            await _project_until_told(worker, health)

    asyncio.run(run())


async def _project_until_told(worker: Projector, health: ProjectorHealth) -> None:
    """Its lag is looked at all the while."""
    import asyncio

    from seekpoint.console.services.stopping import on_stop

    on_stop(worker.stop)
    say(f"projecting journal {worker.settings.journal}; Ctrl-C stops it")
    running = asyncio.create_task(worker.run())
    while not running.done():
        health.look(worker.lag())
        await asyncio.wait({running}, timeout=_LOOK_INTERVAL_S)
    await running


def recovery(
    target: CommandTarget, health_port: HealthPortNumber = None, health_host: HealthHost = "127.0.0.1"
) -> None:
    """Answer requests for recoveries until SIGTERM or Ctrl-C."""
    import asyncio

    from seekpoint.console.render.logs import show_logs

    settings = target.require_kafka()
    show_logs("faust", "mode", "aiokafka")

    async def run() -> None:
        from seekpoint.consumers.recovery_service.recovery_service import RecoveryService

        service = RecoveryService(settings)
        with ExitStack() as stack:
            if health_port is not None:  # before the start: a worker that never gets ready is not well
                from seekpoint.console.services.health_port import HealthPort

                port = HealthPort(health_host, health_port, service.health, lambda: recovery_families(service))
                stack.enter_context(port)
            await _until_told(service)

    asyncio.run(run())


async def _until_told(service: RecoveryService) -> None:
    """Start, run and close, a start that hangs included."""
    import asyncio

    from seekpoint.console.services.stopping import on_stop

    stop = asyncio.Event()
    on_stop(stop.set)
    told = asyncio.create_task(stop.wait())
    starting = asyncio.create_task(service.start())
    await asyncio.wait({told, starting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    await starting
    try:
        say(f"node {service.node_id} answers requests of journal {service.settings.journal}; Ctrl-C stops it")
        await service.run(stop)
    finally:
        told.cancel()
        await service.close()


def dispatcher(
    target: CommandTarget,
    connectors: Annotated[
        list[str],
        typer.Option("--connectors", metavar="MODULE:NAME", help="A table of connectors, or one. May be repeated."),
    ],
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long calls under way may take to end.")
    ] = 20.0,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
) -> None:
    """Call the effects of outbox connectors until SIGTERM or Ctrl-C; the owners only write them down."""
    import asyncio

    from seekpoint.console.services.dispatcher_service import Service, leave_at_once, load_connectors

    known = load_connectors(connectors)
    settings = target.require_kafka()

    async def run() -> None:
        service = Service(settings, known, grace_s)
        await service.run(health_host, health_port)
        if service.is_cut_off:  # from in here: a loop that ends in order waits for its calls, however deaf
            leave_at_once()

    asyncio.run(run())


def recovery_families(service: RecoveryService) -> Iterator[Metric]:
    """The metrics of a recovery worker. Never a process id in a label: there are too many, and they are private."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    figures, name = service.figures, "seekpoint_recovery"
    outcomes = CounterMetricFamily(f"{name}_requests", "Requests read, by what became of them.", labels=["outcome"])
    for outcome in ("answered", "failed", "expired", "undecodable"):
        outcomes.add_metric([outcome], getattr(figures, outcome))
    yield outcomes
    done = figures.answered + figures.failed + figures.expired
    text = "From reading a request to its acknowledged answer."
    yield SummaryMetricFamily(f"{name}_answer_duration_seconds", text, done, figures.answer_seconds)
    checkpoints = CounterMetricFamily(
        f"{name}_checkpoints", "Checkpoints asked for after an answer.", labels=["outcome"]
    )
    checkpoints.add_metric(["saved"], figures.checkpoints)
    checkpoints.add_metric(["failed"], figures.checkpoint_failures)
    yield checkpoints
    text = "Requests that Faust did not deliver and this worker read again."
    yield CounterMetricFamily(f"{name}_passed_over_requests", text, figures.passed_over)
    yield GaugeMetricFamily(f"{name}_waiting_requests", "Requests not read yet.", service.health.lag or 0)
    yield GaugeMetricFamily(f"{name}_stalled_seconds", "Work waited and none was done.", service.health.stalled_s)
    text = "Requests of the whole group without an answer, on its leader."
    yield GaugeMetricFamily(f"{name}_open_requests", text, figures.open_requests)
    text = "Requests whose deadline passed without an answer, seen by the leader."
    yield CounterMetricFamily(f"{name}_unanswered_requests", text, figures.unanswered)
