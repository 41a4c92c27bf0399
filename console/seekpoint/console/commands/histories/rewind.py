"""``seekpoint rewind``: go back in a process, or give one of its calls another answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.history_plans import rewind_lines
from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.arguments.import_path import import_module_here
from seekpoint.console.services.arguments.moment_options import answer_of, moment_of
from seekpoint.console.services.arguments.options import ActorName, AsJson, ProcessId, Reason
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import user_name, with_node

if TYPE_CHECKING:
    from seekpoint.producers.history.rewinding import RewindPlan


def rewind(
    target: CommandTarget,
    process_id: ProcessId,
    to_seq: Annotated[int | None, typer.Option("--to-seq", metavar="SEQ", min=1, help="Back to this seq.")] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="Back to then: 2h ago, or 2026-11-22T17:00+00:00.")
    ] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="KEY", help="Back to before this call.")] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="KEY", help="Back to the end of this call.")] = None,
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", min=1, help="Back to a turn's end.")] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="KEY=JSON", help="Give this call another answer, and go on from there."),
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="both, conversation_only, code_only or summarize.")
    ] = "both",
    effects: Annotated[
        str | None,
        typer.Option("--effects", metavar="WAY", help="Effects that followed a replaced answer: keep, or compensate."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("-m", "--module", metavar="MODULE", help="Import it first: it has the compensations."),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="With --mode summarize: the message to add.")
    ] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Even though its owner looks alive.")] = False,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be forgotten.")] = False,
    json: AsJson = False,
) -> None:
    """Go back in a process to an earlier moment. Its history stays, and no effect is made again.

    The next run goes on from there: a worker takes the process up by itself.
    """
    to = moment_of(to_seq=to_seq, to_time=to_time, before=before, after=after, turn=turn)
    answers = dict(answer_of(one) for one in answer or ())
    for module in modules or ():
        import_module_here(module, "--module")
    settings, actor = target.reachable(), by or user_name("--actor")
    plan = with_node(
        settings,
        lambda node: node.rewind(
            process_id, to, mode=mode, answers=answers, effects=effects, note=note, reason=reason, actor=actor,
            take_over=take_over, dry_run=dry_run,
        ),
    )  # fmt: skip
    if json:
        emit_json({**_facts(plan), "dry_run": dry_run})
        return
    for line in rewind_lines(plan):
        emit(clean(line))
    say("nothing was written" if dry_run else f"rewound to seq {plan.to_seq}, as {actor}")


def _facts(plan: RewindPlan) -> dict[str, Any]:
    from msgspec import to_builtins

    facts: dict[str, Any] = to_builtins(plan)
    return facts
