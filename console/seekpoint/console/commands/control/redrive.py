"""``seekpoint redrive``: try failed runs again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import clean, counted, emit, emit_json, say
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessIds, Reason, Since
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import since_us
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.services.calls.send_and_confirm import user_name
from seekpoint.console.services.histories.process_scan import without_view

if TYPE_CHECKING:
    from seekpoint.producers import Client
    from seekpoint.producers.runs.failed_runs import FailedRun


def redrive(
    target: CommandTarget,
    process_ids: ProcessIds = None,
    failed: Annotated[bool, typer.Option("--failed", help="All processes whose run failed.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="With --failed: only this agent's.")
    ] = None,
    since: Since = None,
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="Steps and decisions in doubt begin anew too, with all their attempts.")
    ] = False,
    effect: Annotated[
        list[str] | None,
        typer.Option("--effect", metavar="KEY", help="Make this failed effect again, if it did nothing; repeatable."),
    ] = None,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    json: AsJson = False,
) -> None:
    """Try failed runs again, on the workers and with their code of now; let a run that waits look again.

    Failed calls are made again, what succeeded stays, and a failed effect is only made again if --effect names it.
    """
    if bool(process_ids) == failed or (not failed and (agent is not None or since is not None)):
        what = "give process ids, or --failed with or without --agent and --since"
        raise typer.BadParameter(what, param_hint="PROCESS_ID")
    if effect and len(process_ids or ()) != 1:
        raise typer.BadParameter("an effect is one process's: give its id alone", param_hint="--effect")
    from_us = since_us(since)
    target.reachable()
    found = _failed(target, agent, from_us) if failed else _named(target, process_ids or ())
    actor = by or user_name("--actor")

    async def send(client: Client) -> None:
        from seekpoint.schemas.errors import Refused

        with ReadingProgress("redriving", len(found), "runs") as progress:
            for one in found:
                with suppress(*([Refused] if failed else [])):  # its run goes on since it was listed
                    await client.redrive(
                        one.process_id, reason, in_doubt=in_doubt, effects=effect or (), actor=actor, dry_run=dry_run
                    )
                progress.advance(1)

    if found and (effect or not dry_run):
        with_client(target.settings, send)
    if json:
        sent = [] if dry_run else [one.process_id for one in found]
        emit_json({"redriven": sent, "failed": [asdict(one) for one in found]})
        return
    for one in found:
        emit(clean(f"{one.process_id}  {one.failure or ''}".rstrip()))
    say(f"{counted(len(found), 'failed run' if failed else 'run')} {'found' if dry_run else f'redriven, as {actor}'}")


def _named(target: CommandTarget, process_ids: Iterable[str]) -> list[FailedRun]:
    from seekpoint.producers.runs.failed_runs import run_to_redrive

    return [run_to_redrive(process_id, target.recoverer.recover(process_id).state) for process_id in process_ids]


def _failed(target: CommandTarget, agent: str | None, from_us: int | None) -> list[FailedRun]:
    """Return the failed runs, by id: from the view, else from checkpoints and the log, and say so."""
    from seekpoint.producers.runs.failed_runs import failed_runs

    return sorted(failed_runs(target.recoverer, agent, from_us, without_view()), key=lambda one: one.process_id)
