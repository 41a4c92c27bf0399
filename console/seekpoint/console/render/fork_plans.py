"""Lines that show what a fork or a rerun would begin with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.render.output import counted

if TYPE_CHECKING:
    from seekpoint.producers.history.forks import ForkPlan


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
