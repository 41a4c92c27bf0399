"""``seekpoint costs``: sum what processes spent, by agent, version or day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, Since, Wide
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import since_us

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary

_COUNTED = ("usd", "tokens", "model_calls")


def costs(
    target: CommandTarget,
    by: Annotated[
        str, typer.Option("--by", metavar="WORDS", help="Group by these, with commas: agent, version, day.")
    ] = "agent",
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's processes.")] = None,
    since: Since = None,
    from_log: Annotated[bool, typer.Option("--from-log", help="Read the whole log, even if there is a view.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """Sum what processes recorded of their cost and usage: from the view, or without one from the whole log.

    The whole cost of a process counts on the UTC day on which it began.
    """
    from seekpoint.console.render.listing import listed

    names = tuple(dict.fromkeys(by.split(",")))
    if not set(names) <= _GROUPS.keys():
        raise typer.BadParameter(f"some of {', '.join(_GROUPS)}, with commas", param_hint="--by")
    query = ProcessQuery(agent=agent, since_us=since_us(since))
    target.reachable()
    sums: dict[tuple[str, ...], _Sum] = {}
    without: list[str] = []
    for one, _, _ in listed(target, query, from_log=from_log):
        if one.spent is not None:
            sums.setdefault(tuple(_GROUPS[name](one) for name in names), _Sum()).add(one.spent)
        elif one.agent is not None:
            without.append(one.process_id)
    rows = [{**dict(zip(names, group, strict=True)), **sums[group].facts()} for group in sorted(sums)]
    if json:
        head = {"journal": target.settings.journal, "by": list(names)}
        emit_json({**head, "costs": rows, "without_usage": len(without)})
        return
    columns = [*map(Column, names), *(Column(name, right=True) for name in ("processes", *_COUNTED))]
    if not emit_table(columns, [[row[column.title] for column in columns] for row in rows], wide=wide):
        say("no process recorded what it used")
    if without:
        say(f"{counted(len(without), 'run')} not in the sums: no model call, tool call or cost is recorded")


class _Sum:
    """The costs of the processes of one group."""

    def __init__(self) -> None:
        self._spent: list[Mapping[str, str]] = []

    def add(self, spent: Mapping[str, str]) -> None:
        self._spent.append(spent)

    def facts(self) -> dict[str, Any]:
        from seekpoint.schemas.values.decimal_arithmetic import exact_sum, parse_decimal, plain_text

        sums = {name: exact_sum(parse_decimal(one[name]) for one in self._spent if name in one) for name in _COUNTED}
        return {"processes": len(self._spent), **{name: plain_text(total) for name, total in sums.items()}}


def _day(one: Summary) -> str:
    from seekpoint.schemas.values.clock import iso_time

    return iso_time(one.started_us)[:10]


_GROUPS: dict[str, Callable[[Summary], str]] = {
    "agent": lambda one: one.agent or "-",
    "version": lambda one: one.version or "-",
    "day": _day,
}
