"""``seekpoint shared get | set | ls``: read and set the shared values of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name, with_node

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import State

from seekpoint.console.services.arguments.options import ActorName, AsJson, Wide
from seekpoint.console.services.histories.process_scan import scan_processes

__all__ = []

_COLUMNS = (Column("name"), Column("version", right=True), Column("value", cut=True))

ValueName = Annotated[str, typer.Argument(metavar="NAME", help="The shared value.", show_default=False)]


def get(target: CommandTarget, name: ValueName, json: AsJson = False) -> None:
    """Show a shared value. If it was never set, it is null with version 0."""
    from seekpoint.producers.durable.waits.shared_values import shared_id
    from seekpoint.schemas.errors import UnknownProcess
    from seekpoint.schemas.state.process_state import new_state

    try:
        state = target.recoverer.recover(shared_id(name)).state
    except UnknownProcess:
        state = new_state()
    facts = _facts(name, state)
    if json:
        emit_json(facts)
    else:
        emit(clean(str(_row(facts)[2])))
        say(f"version {facts['version']}")


def set_(
    target: CommandTarget,
    name: ValueName,
    value: Annotated[str, typer.Argument(metavar="JSON", help="The value.", show_default=False)],
    expected_version: Annotated[
        int | None, typer.Option("--expected-version", help="Set it only if it has this version; 0: never set.")
    ] = None,
    by: ActorName = None,
    json: AsJson = False,
) -> None:
    """Set a shared value. If two callers expect the same version, the first in the log wins; the other exits with 4."""
    given, actor = parse_json(value, "JSON"), by or user_name("--actor")
    version = with_node(
        target.reachable(),
        lambda node: node.shared(name).set(given, expected_version=expected_version, actor=actor),
    )
    if json:
        emit_json({"name": name, "version": version, "value": given, "actor": actor})
        return
    say(f"{name}: version {version}, as {actor}")


def ls(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> None:
    """List the journal's shared values, by partition and name. This reads the whole log."""
    from seekpoint.schemas.folding.fold import SHARED_PREFIX

    found = (
        _facts(process_id.removeprefix(SHARED_PREFIX), state)
        for process_id, _, state in scan_processes(target)
        if process_id.startswith(SHARED_PREFIX)
    )
    if json:
        emit_json_list({}, "shared", found)
    elif not emit_table(_COLUMNS, map(_row, found), wide=wide):
        say("there are no shared values yet")


def _facts(name: str, state: State) -> dict[str, Any]:
    import orjson

    text = state.shared_json
    return {"name": name, "version": state.shared_version, "value": None if text is None else orjson.loads(text)}


def _row(facts: dict[str, Any]) -> list[object]:
    import orjson

    return [facts["name"], facts["version"], orjson.dumps(facts["value"]).decode()]
