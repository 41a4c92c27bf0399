"""What a rewind would do, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seekpoint.console.render.output import counted

if TYPE_CHECKING:
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
    """Yield each consequence: ``forgets``, ``answers``, ``keeps``, ``drops`` or ``changes``, and what."""
    for one in plan.calls:
        yield "forgets", f"{one.key} ({one.kind}, {one.status}{_cost(one.cost_usd)})"
    for key in plan.answers:
        yield "answers", f"{key} differently"
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
