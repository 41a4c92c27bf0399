"""Hold a first-time effect until the code has made again every recorded effect that unchanged code makes.

A call that changed code moved to another scope has no record there, and would be made a second time. With explicit
branches it is certain when nothing can make the recorded effect any more. Tasks of asyncio may wait for anything, so
nobody knows what they do next: there the effect is held for a limited time, and is not begun.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.budgets.budget_checks import admit
from seekpoint.producers.durable.replay.completion_order import QUIET_ROUNDS
from seekpoint.producers.durable.replay.scopes import root_scope
from seekpoint.schemas.errors import EffectHeld, ReplayDivergence

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from seekpoint.producers.durable.durable_process import DurableProcess
    from seekpoint.producers.durable.replay.history_matcher import CallPlace

_LOOK_S = 0.01
_MOVED_S = 0.1
"""How long to hold an effect whose request the history has in another scope: a call that was moved, as a rule."""
_OTHER_S = 1.0
"""How long to hold an effect in a further attempt of a body that made another one of its name."""
_HELD_S = 10.0
"""How long to hold any other effect: longer than a recorded answer is held back that leads to the recorded effect."""


async def hold(process: DurableProcess, place: CallPlace, digest: str, estimated: Mapping[str, Any]) -> None:
    """Return once the first-time effect at ``place`` may begin, and the budget has room for it.

    Raise ``ReplayDivergence`` where the code does not make a recorded effect again, ``EffectHeld`` where it may only
    be late, ``Cancelled`` once the process is asked to stop.
    """
    await admit(process, place, estimated)  # before it waits: a refusal has no record, and the code went on from it
    matcher, loop = process.matcher, asyncio.get_running_loop()
    seen, since_s, rounds = (-1, -1), 0.0, 0
    while left := matcher.effects.before(place):
        process.cancellation.check_call(place)
        now = len(matcher.asked_keys), len(left)
        if now != seen:
            seen, since_s, rounds = now, loop.time(), 0
        rounds += 1
        if rounds > QUIET_ROUNDS:
            error = _error(process, place, digest, left, loop.time() - since_s)
            if error is not None:
                raise error
        if matcher.divergence is not None:
            raise matcher.divergence
        await asyncio.sleep(0 if rounds <= QUIET_ROUNDS else _LOOK_S)


def _error(
    process: DurableProcess, place: CallPlace, digest: str, left: Collection[str], quiet_s: float
) -> ReplayDivergence | EffectHeld | None:
    """Return the error of an effect that is held no longer; None while it is."""
    matcher, branch = process.matcher, place.scope.branch_task
    to_come = matcher.effects.to_come(place, in_branches=branch is not None)
    missing = [key for key in left if key not in to_come]
    if not missing:
        return None  # the body of a call in doubt takes its time
    first = min(missing, key=lambda key: matcher.effects.record_of(key, place).seq)
    if branch is not None and all(key.startswith(root_scope(place.key)) for key in missing):
        return matcher.diverge(place, first, digest) if branch.schedule.is_at_rest else None
    is_late = quiet_s >= _HELD_S
    if first not in matcher.effects.left:
        return matcher.diverge(place, first, digest) if quiet_s >= _OTHER_S else None
    moved = next((key for key in missing if matcher.effects.is_moved(key, digest)), None)
    if moved is not None and (is_late or (quiet_s >= _MOVED_S and not matcher.order.holds_answers)):
        return matcher.diverge(place, moved, digest)
    return matcher.held(place, first) if is_late else None
