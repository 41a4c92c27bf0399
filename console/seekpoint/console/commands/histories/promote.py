"""``seekpoint promote``: merge what a fork did into the process it was forked from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node

if TYPE_CHECKING:
    from collections.abc import Sequence


def promote(
    target: CommandTarget,
    fork_id: ProcessId,
    prefer: Annotated[
        list[str] | None,
        typer.Option("--prefer", metavar="[PART=]SIDE", help="Who wins a conflict, fork or parent; of all, or a part."),
    ] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Even though the parent's owner looks alive.")] = False,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    json: AsJson = False,
) -> None:
    """Merge what a fork did into its parent, as one entry. The fork stays, and no effect is made again."""
    actor = by or user_name("--actor")
    sides = _sides(prefer or [])
    plan = with_node(
        target.reachable(),
        lambda node: node.promote(
            fork_id, prefer=sides, reason=reason, actor=actor, take_over=take_over, dry_run=dry_run
        ),
    )
    if json:
        from msgspec import to_builtins

        emit_json({**to_builtins(plan), "dry_run": dry_run})
        return
    for what, parts in (("takes", plan.taken), ("keeps", plan.kept), ("conflicts", plan.conflicts)):
        for part in parts:
            emit(clean(f"{what:<9} {part}"))
    done = (
        "nothing was written"
        if dry_run
        else f"{clean(plan.fork_id)} is merged into {clean(plan.parent_id)}, as {actor}"
    )
    say(done)


def _sides(given: Sequence[str]) -> str | dict[str, str] | None:
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    if not all("=" in one for one in given):
        raise typer.BadParameter("give one side for all, or PART=SIDE for each part", param_hint="--prefer")
    return {part: side for part, _, side in (one.rpartition("=") for one in given)} or None
