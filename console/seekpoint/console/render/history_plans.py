"""What a rewind, a fork or a rerun would do, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seekpoint.console.render.output import counted

if TYPE_CHECKING:
    from seekpoint.producers.history.forks import ForkPlan
    from seekpoint.producers.history.rewinding import RewindPlan


def rewind_lines(plan: RewindPlan) -> list[str]:
    """Return the plan as lines of text."""
    lines = [rewind_head(plan), *(f"  {word:<7} {text}" for word, text in rewind_steps(plan))]
    if plan.cost_usd is not None:
        lines.append(f"  what is forgotten had cost ${plan.cost_usd}")
    return lines


def rewind_head(plan: RewindPlan) -> str:
    """Return from where to where it goes."""
    return f"{plan.process_id}: seq {plan.seq} back to {plan.to_seq}, {counted(plan.entries, 'entry')} since"


def rewind_steps(plan: RewindPlan) -> Iterator[tuple[str, str]]:
    """Yield each consequence: ``forgets``, ``answers``, ``warns``, ``keeps``, ``drops`` or ``changes``, and what."""
    for one in plan.calls:
        yield "forgets", f"{one.key} ({one.kind}, {one.status}{_cost(one.cost_usd)})"
    for key in plan.answers:
        yield "answers", f"{key} differently"
    for text in plan.other_shapes:
        yield "warns", f"of another shape: {text}"
    for key in plan.effects:
        yield "keeps", f"{key} (effect, not called again)"
    for key in plan.compensated:
        yield "forgets", f"{key} (effect, compensated)"
    if plan.messages > 0:
        yield "drops", counted(plan.messages, "message")
    if plan.values:
        yield "changes", f"{', '.join(plan.values)} in the context"


def _cost(cost_usd: str | None) -> str:
    return "" if cost_usd is None else f", ${cost_usd}"


def plan_lines(plan: ForkPlan, new_id: str) -> list[str]:
    """Return the plan as lines of text."""
    runs = "no agent" if plan.agent is None else f"agent {plan.agent}"
    lines = [
        f"{new_id}: from {plan.parent_id} at seq {plan.parent_seq}, {runs}, {plan.lifecycle}",
        f"  inherits {counted(plan.calls, 'call')}, {counted(plan.messages, 'message')}, "
        f"{counted(plan.values, 'value')}; effects are {plan.effects}",
    ]
    lines += [f"  answers  {key} differently" for key in plan.answers]
    lines += [f"  in doubt {key} (effect, never called by the fork)" for key in plan.in_doubt]
    lines += [f"  answered {key}, if the fork asks the same" for key in plan.later]
    lines += [f"  later    {key} (effect of the parent)" for key in plan.later_effects if key not in plan.later]
    return lines
