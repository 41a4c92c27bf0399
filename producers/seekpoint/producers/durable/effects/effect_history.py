"""The effects of a process as its journal has them: those of turns that are over, and of a finished process, too. Pure.

A state forgets an effect once it is settled and its turn is over, and a finished process all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.recorded_run import Admission, numbered
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.process_state import Draft, State

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged

__all__ = ["EffectHistory", "effects_in"]


def effects_in(history: Iterable[Logged | Entry], limits: Limits = DEFAULT_LIMITS) -> dict[str, Call]:
    """Every effect by its key, as it was last known. Raises ``JournalGap`` if the history's beginning is missing."""
    found = EffectHistory(limits)
    for offset, entry in numbered(history):
        found.take(offset, entry)
    return found.effects


class EffectHistory:
    """The effects of one process, collected entry by entry in log order."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._admission = Admission(limits)
        self._forgotten: dict[str, Call] = {}

    def take(self, offset: int, entry: Entry) -> None:
        """Fold the process's next entry. Raises ``JournalGap`` if the history's beginning is missing."""
        leaving = _effects(self._admission.draft) if isinstance(entry.body, _FORGETTING) else {}
        if self._admission.admits(offset, entry):
            self._forgotten |= leaving

    @property
    def effects(self) -> dict[str, Call]:
        """Return every effect by its key, as it was last known."""
        return self._forgotten | _effects(self._admission.draft)

    @property
    def state(self) -> State:
        """Return the process's state so far; nothing can be taken afterwards."""
        return self._admission.draft.freeze()


_FORGETTING = (b.TurnEnded, b.Finished, b.Rewound)


def _effects(draft: Draft) -> dict[str, Call]:
    return {key: call for key, call in draft.calls.items() if call.kind == "effect"}
