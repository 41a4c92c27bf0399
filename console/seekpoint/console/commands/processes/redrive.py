"""``seekpoint redrive``: try failed runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.commands.processes.ps import since_us
from seekpoint.console.render.listing import open_states
from seekpoint.console.render.output import clean, counted, emit, emit_json, say
from seekpoint.console.services.client_calls import with_client
from seekpoint.console.services.options import ActorName, AsJson, Reason, Since
from seekpoint.console.services.process_query import ProcessQuery
from seekpoint.console.services.sender import user_name
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers import Client
    from seekpoint.schemas.state.process_state import State

__all__ = ["redrive"]


def redrive(
    target: CommandTarget,
    process_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="The processes.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All processes whose run failed.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="With --failed: only this agent's.")
    ] = None,
    since: Since = None,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    json: AsJson = False,
) -> None:
    """Try failed runs again, on the workers and with their code of now.

    Failed calls are made again, what succeeded stays, and a failed effect is not made again.
    """
    from seekpoint.schemas.errors import Refused

    if bool(process_ids) == failed or (not failed and (agent is not None or since is not None)):
        raise typer.BadParameter("give process ids, or --failed with or without --agent and --since", param_hint="ID")
    query = ProcessQuery(agent=agent, failed=True, since_us=since_us(since))
    target.require_kafka()
    found: dict[str, dict[str, Any]] = {}
    if failed:
        # From the log all states come, from the view those that the query wants.
        for process_id, state in open_states(target, None, query.wants):
            if _is_wanted(process_id, state, query):
                found[process_id] = _row(process_id, state)
    for process_id in process_ids or ():
        state = target.recoverer.recover(process_id).state
        if not _has_failed(state):
            raise Refused(
                "the run of the process did not fail, nothing was sent",
                process_id=process_id, lifecycle=str(state.lifecycle),
                hint="seekpoint state ID shows what it waits for",
            )  # fmt: skip
        found[process_id] = _row(process_id, state)
    actor = by or user_name("--by")

    async def send(client: Client) -> None:
        for process_id in found:
            await client.redrive(process_id, reason, actor=actor)

    if found and not dry_run:
        with_client(target.settings, send)
    if json:
        emit_json({"redriven": [] if dry_run else [*found], "failed": [*found.values()]})
        return
    for process_id, facts in found.items():
        emit(clean(f"{process_id}  {facts['failure'] or ''}".rstrip()))
    say(f"{counted(len(found), 'failed run')} {'found' if dry_run else f'redriven, as {actor}'}")


def _is_wanted(process_id: str, state: State, query: ProcessQuery) -> bool:
    from seekpoint.consumers.view.process_summary import summary_of

    return _has_failed(state) and query.wants(summary_of(0, process_id.encode(), state))


def _has_failed(state: State) -> bool:
    from seekpoint.schemas.state.lifecycle import Lifecycle

    return not state.finished and state.lifecycle is Lifecycle.FAILED and state.agent is not None


def _row(process_id: str, state: State) -> dict[str, Any]:
    failure = state.failure
    return {
        "process_id": process_id,
        "agent": None if state.agent is None else state.agent.name,
        "failure": None if failure is None else f"{failure.type}: {failure.message}",
        "runs_failed": 0 if state.run_failures is None else state.run_failures.count,
    }
