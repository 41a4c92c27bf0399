"""``seekpoint schedules``: list the schedules of agents, pause them, resume them, and trigger runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import ActorName, AsJson, Wide
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.services.calls.send_and_confirm import user_name

if TYPE_CHECKING:
    from datetime import datetime

    from seekpoint.producers import ScheduleStatus

__all__ = ["ls", "pause", "resume", "trigger"]

_COLUMNS = (
    Column("agent"), Column("schedule"), Column("time zone"), Column("missed", wide=True), Column("next"),
    Column("last", wraps=True),
)  # fmt: skip

ScheduledAgent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)]


def ls(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> None:
    """List the schedules of agents: the last firing that was submitted, and the next one."""
    statuses = with_client(target.reachable(), lambda client: client.schedules())
    found = [_facts(one) for one in statuses]
    if json:
        emit_json_list({}, "schedules", found)
    elif not emit_table(_COLUMNS, map(_row, found), wide=wide):
        say("no worker has had an agent with a schedule")


def pause(target: CommandTarget, agent: ScheduledAgent, by: ActorName = None, json: AsJson = False) -> None:
    """Let no run be submitted by an agent's schedule before ``resume``."""
    actor = by or user_name("--actor")
    with_client(target.reachable(), lambda client: client.pause_schedule(agent, actor=actor))
    _report(agent, "paused", actor, json)


def resume(target: CommandTarget, agent: ScheduledAgent, by: ActorName = None, json: AsJson = False) -> None:
    """Let an agent's schedule go on from now. The firings of the pause are left out."""
    actor = by or user_name("--actor")
    with_client(target.reachable(), lambda client: client.resume_schedule(agent, actor=actor))
    _report(agent, "resumed", actor, json)


def trigger(target: CommandTarget, agent: ScheduledAgent, by: ActorName = None, json: AsJson = False) -> None:
    """Submit a run as the schedule would if it fired now, paused or not. The id goes to stdout."""
    actor = by or user_name("--actor")
    run = with_client(target.reachable(), lambda client: client.trigger_schedule(agent, actor=actor))
    if json:
        emit_json({"agent": agent, "process_id": run.id})
    else:
        emit(run.id)
        say(clean(f"{run.id}: submitted, as {actor}"))


def _report(agent: str, what: str, actor: str, json: bool) -> None:
    if json:
        emit_json({"agent": agent, "state": what})
    else:
        say(clean(f"{agent}: its schedule is {what}, as {actor}"))


def _facts(status: ScheduleStatus) -> dict[str, Any]:
    return {
        "agent": status.agent, "cron": status.cron, "timezone": status.timezone, "missed": status.missed,
        "last": _text(status.last), "next": None if status.next is None else _text(status.next),
        "paused_by": status.paused_by,
    }  # fmt: skip


def _row(facts: dict[str, Any]) -> list[object]:
    paused_by = facts["paused_by"]
    upcoming = facts["next"] or ("-" if paused_by is None else f"paused by {paused_by}".removesuffix(" by "))
    return [facts["agent"], facts["cron"], facts["timezone"], facts["missed"], upcoming, facts["last"]]


def _text(moment: datetime) -> str:
    from seekpoint.producers.durable.steps.cron_schedules import moment_text

    return moment_text(moment)
