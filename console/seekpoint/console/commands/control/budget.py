"""``seekpoint budget show | raise``: show what a process may use and has used, and raise a limit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import with_node

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.state.budget_sums import Budget

from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Wide

_ZERO = Decimal(0)

_COLUMNS = (
    Column("dimension"),
    Column("of"),
    *(Column(title, right=True) for title in ("limit", "spent", "reserved", "left")),
)


def show(target: CommandTarget, process_id: ProcessId, wide: Wide = False, json: AsJson = False) -> None:
    """Show a process's limits, what it has spent and what running calls reserve, per run and for the newest day."""
    from seekpoint.schemas.errors import Refused

    found = target.recoverer.recover(process_id).state
    if found.budget is None:
        reason = "its content was dropped" if found.content_dropped else "none was set"
        raise Refused(f"the process has no budget: {reason}", process_id=process_id, hint="process.set_budget(...)")
    facts = budget_facts(found.budget)
    if json:
        emit_json({"process_id": process_id, **facts})
        return
    rows = [*_rows("run", facts["run"]), *_rows(f"day {facts['day']}", facts["of_day"])]
    emit_table(_COLUMNS, rows, wide=wide)
    say(f"warns at {facts['warn_at']} of a limit; when a limit is exceeded: {facts['on_exceed']}")


def budget_facts(budget: Budget) -> dict[str, Any]:
    """Return the budget as ``--json`` shows it. Amounts are exact, as text; without a limit they are only counted."""
    from seekpoint.schemas.values.decimal_arithmetic import exact_sum, plain_text

    names = {name for amounts in budget.reserved.values() for name in amounts}
    reserved = {
        name: exact_sum(amounts[name] for amounts in budget.reserved.values() if name in amounts) for name in names
    }
    return {
        "warn_at": plain_text(budget.warn_at),
        "on_exceed": budget.on_exceed,
        "run": _amounts(budget.limits, budget.used, reserved),
        "day": _date(budget.day),
        "of_day": _amounts(budget.day_limits, budget.day_spent, reserved),
        "reserved_for": sorted(budget.reserved),
        "noted": list(budget.noted),
    }


def _date(day: int) -> str:
    """Return the date of a day counted from 1970, or its number if a broken clock gave one outside the calendar."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
    except OverflowError:
        return str(day)


def _amounts(limits: Any, spent: Any, reserved: Any) -> dict[str, dict[str, str | None]]:
    from seekpoint.schemas.values.decimal_arithmetic import EXACT, plain_text

    found = {}
    for name in sorted({*limits, *spent, *reserved}):
        limit, used, held = limits.get(name), spent.get(name, _ZERO), reserved.get(name, _ZERO)
        found[name] = {
            "limit": None if limit is None else plain_text(limit),
            "spent": plain_text(used),
            "reserved": plain_text(held),
            "left": None if limit is None else plain_text(EXACT.subtract(limit, EXACT.add(used, held))),
        }
    return found


def _rows(of: str, amounts: dict[str, dict[str, str | None]]) -> list[list[object]]:
    return [[name, of, *(value or "-" for value in facts.values())] for name, facts in amounts.items()]


def raise_(
    target: CommandTarget,
    process_id: ProcessId,
    dimension: Annotated[str, typer.Argument(metavar="DIMENSION", help="usd, tokens, model_calls, ...")],
    limit: Annotated[str, typer.Argument(metavar="LIMIT", help="The new limit, an exact decimal such as 7.50.")],
    day: Annotated[bool, typer.Option("--day", help="Limit each UTC day, not the whole run.")] = False,
    by: ActorName = None,
    json: AsJson = False,
) -> None:
    """Set one limit. The command claims the process briefly, and is refused while its owner looks alive."""
    scope = "day" if day else "run"
    budget = with_node(
        target.reachable(), lambda node: raise_limit(node, process_id, dimension, limit, scope=scope, actor=by)
    )
    if json:
        emit_json({"process_id": process_id, **budget_facts(budget)})
    else:
        say(f"{process_id}: {dimension} may be {limit}{' a day' if day else ''}; run it again to continue")


async def raise_limit(
    node: Node, process_id: str, dimension: str, limit: str, *, scope: str = "run", actor: str | None = None
) -> Budget:
    """Raise one limit and return the budget.

    Raises ``UnknownProcess``, and ``Refused`` if the process has no budget.
    """
    from seekpoint.producers.durable.budgets.budget_checks import raise_budget
    from seekpoint.producers.process import durable_side
    from seekpoint.schemas.errors import Refused

    before = (await node.recover(process_id)).state
    if before.budget is None and not before.finished:
        raise Refused("the process has no budget", process_id=process_id, hint="process.set_budget(...)")
    async with node.open(process_id, actor=actor) as process:
        await raise_budget(durable_side(process), dimension, limit, scope=scope, actor=actor)
        budget = process.written.budget
        assert budget is not None
        return budget
