"""``seekpoint worker``: run submitted agents until a signal stops it."""

from __future__ import annotations

from typing import Annotated

import typer

from seekpoint.console.services.arguments.options import AsJson, HealthHost, HealthPortNumber, PriceFile
from seekpoint.console.services.arguments.price_file import prices_in
from seekpoint.console.services.arguments.target import CommandTarget


def worker(
    target: CommandTarget,
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE[:AGENT]...", help="The agents to run, as import paths.")
    ],
    runs_max: Annotated[int, typer.Option("--runs-max", metavar="N", min=1, help="Runs in memory at once.")] = 100,
    concurrency: Annotated[
        list[str] | None,
        typer.Option("--concurrency", metavar="AGENT=N", help="Runs of one agent at once; may be repeated."),
    ] = None,
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long a run that only waits stays in memory.")
    ] = 2.0,
    drain_s: Annotated[
        float, typer.Option("--drain", metavar="SECONDS", min=0, help="How long runs may take to end at a stop.")
    ] = 30.0,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="The group of workers that share the work. Default: by agents."),
    ] = None,
    prices: PriceFile = None,
    health_port: HealthPortNumber = None,
    health_host: HealthHost = "127.0.0.1",
    json: AsJson = False,  # output.announce knows it
) -> None:
    """Run what is submitted for the agents of some modules, and go on with what dead workers left behind.

    Start as many as you like. SIGTERM or Ctrl-C drains: nothing new begins, and runs under way have --drain seconds to
    end. A second signal releases them at once.
    """
    import logging

    from seekpoint.console.services.daemons.termination import exit_now, run_past_exits
    from seekpoint.console.services.daemons.worker_service import WorkerService, agents_in, limits_of
    from seekpoint.producers import Worker

    agents = agents_in(modules)
    limits = limits_of(concurrency or [], agents)
    known, settings = prices_in(prices), target.reachable(may_create=True)

    logging.getLogger("seekpoint.runs").setLevel(logging.INFO)
    workers: list[Worker] = []

    async def run() -> None:
        worker = Worker(
            agents, settings, runs_max=runs_max, concurrency=limits, grace_s=grace_s, drain_s=drain_s, group=group
        )
        workers.append(worker)
        worker.node.prices = known
        service = WorkerService(worker, drain_s)
        await service.run(health_host, health_port)
        if service.is_cut_off:  # inside the loop: a normal end of the loop would wait for plain functions
            exit_now()

    def fail(error: BaseException) -> None:
        for worker in workers:
            worker.fail_exited(error)

    run_past_exits(run(), fail)
