"""Collect the effects of a process from its journal, also those of earlier turns and of a finished process. Pure.

A state drops an effect once it is settled and its turn has ended. A finished process has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.recorded_run import Admission, numbered
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.state.calls import Call, is_compensated, revoked
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.values.near_names import did_you_mean
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged


def effects_in(history: Iterable[Logged | Entry], limits: Limits = DEFAULT_LIMITS) -> dict[str, Call]:
    """Return the newest record of each effect by its key. Raises ``JournalGap`` if its beginning is missing."""
    found = EffectHistory(limits)
    for offset, entry in numbered(history):
        found.take(offset, entry)
    return found.effects


def effect_to_revoke(
    history: Iterable[Logged | Entry], process_id: str, key: str, limits: Limits = DEFAULT_LIMITS
) -> Call:
    """Return the effect if it may be revoked. Raises ``Refused`` with what it is otherwise, and ``JournalGap``."""
    effects = effects_in(history, limits)
    call = effects.get(key)
    if call is None:
        raise Refused(
            "the process has no such effect", process_id=process_id, key=key,
            hint=did_you_mean(key, effects, f"list its effects: seekpoint effects ls {pasted(process_id)} --all"),
        )  # fmt: skip
    if call.status != "succeeded":
        raise Refused(
            f"only an effect that has succeeded is revoked, this one is {call.status}", process_id=process_id, key=key,
            hint=f"settle an effect in doubt: seekpoint effects resolve {pasted(process_id, key)}",
        )  # fmt: skip
    if is_compensated(key, effects):
        raise Refused(
            "nothing of the effect is left: it was compensated or revoked before", process_id=process_id, key=key,
            hint=f"see it: seekpoint effects show {pasted(process_id, key)}",
        )  # fmt: skip
    return call


class EffectHistory:
    """The effects of one process, collected entry by entry in log order."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._admission = Admission(limits)
        self._dropped: dict[str, Call] = {}

    def take(self, offset: int, entry: Entry) -> None:
        """Fold the process's next entry. Raises ``JournalGap`` if the history's beginning is missing."""
        dropped = _effects(self._admission.draft) if isinstance(entry.body, _DROPPING) else {}
        if self._admission.admits(offset, entry):
            self._dropped |= dropped
            if isinstance(entry.body, b.EffectRevoked) and (call := self._dropped.get(entry.body.key)) is not None:
                self._dropped[entry.body.key] = revoked(call, entry.ts)

    @property
    def effects(self) -> dict[str, Call]:
        """Return the newest record of each effect by its key."""
        return self._dropped | _effects(self._admission.draft)

    @property
    def state(self) -> State:
        """Return the process's state so far; nothing can be taken afterwards."""
        return self._admission.draft.freeze()


_DROPPING = (b.TurnEnded, b.Finished, b.Rewound, b.Promoted)


def _effects(draft: Draft) -> dict[str, Call]:
    return {key: call for key, call in draft.calls.items() if call.kind == "effect"}
