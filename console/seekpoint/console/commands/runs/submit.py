"""``seekpoint submit``: submit a run of an agent to the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.arguments.chosen_agents import chosen_agents
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import parse_time
from seekpoint.console.services.calls.client_calls import plain_value, with_client
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name

if TYPE_CHECKING:
    from datetime import datetime

    from seekpoint.producers import Client


def submit(
    target: CommandTarget,
    process_id: ProcessId,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent's name. Without -m no code is imported.")
    ],
    input: Annotated[str, typer.Option("--input", metavar="JSON", help="The agent's input.")] = "null",
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--module",
            "-m",
            metavar="MODULE",
            help="Check the input against the agent's code in this module. Repeatable.",
        ),
    ] = None,
    priority: Annotated[int, typer.Option("--priority", metavar="N", help="Runs with a higher one begin first.")] = 0,
    delay_s: Annotated[
        float | None, typer.Option("--delay", metavar="SECONDS", min=0, help="Do not begin earlier.")
    ] = None,
    start_at: Annotated[
        str | None, typer.Option("--start-at", metavar="TIME", help="Do not begin before: ISO 8601, or seconds.")
    ] = None,
    by: ActorName = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result, and print it.")] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="With --wait: wait no longer. The run goes on."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Submit a run of an agent. A worker with code for the agent begins it: ``seekpoint worker``.

    The same id with the same agent and input is the same run, however often it is submitted.
    """
    if delay_s is not None and start_at is not None:
        raise typer.BadParameter("give --delay or --start-at, not both", param_hint="--delay")
    if timeout_s is not None and not wait:
        raise typer.BadParameter("give it with --wait", param_hint="--timeout")
    value, actor = parse_json(input, "--input"), by or user_name("--actor")
    asked = chosen_agents(agent, modules)[agent] if modules else agent
    begins = None if start_at is None else _moment(start_at)

    async def send(client: Client) -> Any:
        run = await client.submit(
            asked, process_id, value, priority=priority, start_at=begins, delay=delay_s, actor=actor
        )
        say(clean(f"{process_id}: submitted to the workers that run {agent}, as {actor}"))
        return await run.result(timeout_s) if wait else None

    result = plain_value(with_client(target.reachable(may_create=True), send))
    if json:
        emit_json({"process_id": process_id, "agent": agent} | ({"result": result} if wait else {}))
    elif wait:
        emit_json(result)
    else:
        emit(process_id)


def _moment(text: str) -> datetime:
    from datetime import UTC, datetime

    found = parse_time(text, "--start-at")
    if isinstance(found, datetime):
        return found
    try:
        return datetime.fromtimestamp(found, UTC)
    except (OverflowError, ValueError, OSError):
        raise typer.BadParameter(f"{text} is out of range", param_hint="--start-at") from None
