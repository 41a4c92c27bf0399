"""``seekpoint fork``: begin another process with what one had at a moment of its past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.history_plans import plan_lines
from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.arguments.moment_options import answer_of, moment_of
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.producers.history.forks import ForkPlan
    from seekpoint.producers.history.history_points import HistoryPoint

__all__ = ["fork"]


def fork(
    target: CommandTarget,
    process_id: ProcessId,
    new_id: Annotated[str, typer.Argument(metavar="NEW_ID", help="The id of the fork, which was never used.")],
    at_seq: Annotated[int | None, typer.Option("--at-seq", metavar="SEQ", min=1, help="After this seq.")] = None,
    at_time: Annotated[
        str | None, typer.Option("--at-time", metavar="TIME", help="As it was then: 2h ago, or 2026-11-22T17:00+00:00.")
    ] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="KEY", help="Before this call.")] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="KEY", help="After this call.")] = None,
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", min=1, help="After this turn.")] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="KEY=JSON", help="Give this call another answer, and go on from there."),
    ] = None,
    effects: Annotated[
        str,
        typer.Option("--effects", metavar="POLICY", help="Effects that no record answers: refused, recorded or live."),
    ] = "refused",
    permissive: Annotated[
        bool, typer.Option("--permissive", help="Equal requests are answered by what the parent did later.")
    ] = False,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the fork would begin with.")] = False,
    json: AsJson = False,
) -> None:
    """Begin NEW_ID with the content of a process, as it is or as it was. The process itself is only read.

    The fork is released at once: a worker goes on with it, or seekpoint run NEW_ID --agent MODULE:FUNCTION --resume.
    """
    at = moment_of(at_seq=at_seq, at_time=at_time, before=before, after=after, turn=turn)
    how: dict[str, Any] = {
        "at": at, "answers": dict(answer_of(one) for one in answer or ()), "effects": effects, "permissive": permissive,
    }  # fmt: skip
    actor = by or user_name("--actor")
    plan = with_node(target.reachable(), lambda node: _forked(node, process_id, new_id, how, reason, actor, dry_run))
    if json:
        emit_json({"process_id": new_id, **_facts(plan), "dry_run": dry_run})
        return
    for line in plan_lines(plan, new_id):
        emit(clean(line))
    say("nothing was written" if dry_run else f"forked as {actor}")


async def _forked(
    node: Node, process_id: str, new_id: str, how: dict[str, Any], reason: str | None, actor: str, dry_run: bool
) -> ForkPlan:
    plan = await node.plan_fork(process_id, **how)
    if not dry_run:
        how["at"] = plan_point(plan)
        async with node.fork(plan.parent_id, new_id, reason=reason, actor=actor, **how):
            pass
    return plan


def plan_point(plan: ForkPlan) -> HistoryPoint:
    """Return the moment of the plan: the parent may have gone on since."""
    from seekpoint.producers.history.history_points import HistoryPoint

    return HistoryPoint.seq(plan.parent_seq)


def _facts(plan: ForkPlan) -> dict[str, Any]:
    from msgspec import to_builtins

    facts: dict[str, Any] = to_builtins(plan)
    return facts
