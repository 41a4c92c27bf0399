"""Check whether the holder of a business key still needs it: by the holder's journal, not by the key's own value.

An owner releases a key after it has journaled that nothing was done, and may die in between. So an effect that finds
the key held reads the holder's journal: a crash cannot lose a key.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seekpoint.producers.durable.effects.business_keys import KeyHolder
from seekpoint.producers.durable.effects.effect_history import effects_in
from seekpoint.producers.durable.failures.recorded_failures import is_undone
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.state.calls import Call, turn_of

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Journal
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State


async def is_released(journal: Journal, limits: Limits, holder: KeyHolder) -> bool:
    """Whether the effect that holds a key certainly has not happened and never will.

    Its failure says so, or its process never began it and cannot begin it any more. An effect whose history was trimmed
    counts as done. Reads the holder's state, and its whole history only if the state no longer has the effect.
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
    """Whether the process can no longer make this call."""
    return state.finished or 0 < turn_of(key) <= state.turn


def _is_undone(call: Call, holder: KeyHolder) -> bool:
    same = call.facts.get("idempotency_key") == holder.idempotency_key
    return same and call.status == "failed" and call.error is not None and is_undone(call.error)
