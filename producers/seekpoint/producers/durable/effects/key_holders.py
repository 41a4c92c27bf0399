"""Whether who took a business key still has it: the journal of its process says so, not the key's own value.

An owner gives a key back once it has written down that nothing was done, and may die in between. So whoever finds a key
taken looks at what the holder's journal says; a key cannot get lost by a crash.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effects.business_keys import KeyHolder
from seekpoint.producers.durable.effects.effect_history import effects_in
from seekpoint.producers.durable.failures.recorded_failures import says_undone
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.state.calls import Call, turn_of

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Journal
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State

__all__ = ["has_let_go"]


async def has_let_go(journal: Journal, limits: Limits, holder: KeyHolder) -> bool:
    """Whether the effect that took a key is known not to have happened, for good.

    It failed for certain, or its process can begin it no more and never did. What cannot be told any more, since the
    history was trimmed, counts as done. Reads the holder's state; its whole history only once that has forgotten it.
    """
    try:
        state = (await journal.recover(holder.process_id, missing_ok=True)).state
        call = state.calls.get(holder.key)
        if call is not None or not _is_past(state, holder.key):
            return call is not None and _is_undone(call, holder)
        history = [one async for one in journal.entries(holder.process_id)]
        call = (await journal.in_thread(partial(effects_in, history, limits))).get(holder.key)
        return call is None or _is_undone(call, holder)
    except JournalGap:
        return False


def _is_past(state: State, key: str) -> bool:
    """Whether the process can ask for this call no more."""
    return state.finished or 0 < turn_of(key) <= state.turn


def _is_undone(call: Call, holder: KeyHolder) -> bool:
    same = call.facts.get("idempotency_key") == holder.idempotency_key
    return same and call.status == "failed" and call.error is not None and says_undone(call.error)
