"""The effects of a process as its journal has them: those of turns that are over, and of a finished process, too. Pure.

A state forgets an effect once it is settled and its turn is over, and a finished process all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seekpoint.producers.durable.recorded import Admission, numbered
from seekpoint.schemas import bodies as b
from seekpoint.schemas.calls import Call
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.state import Draft

if TYPE_CHECKING:
    from seekpoint.consumers.history import Logged

__all__ = ["effects_in"]


def effects_in(history: Iterable[Logged | Entry], limits: Limits = DEFAULT_LIMITS) -> dict[str, Call]:
    """Every effect by its key, as it was last known. Raises ``JournalGap`` if the history's beginning is missing."""
    admission, found = Admission(limits), dict[str, Call]()
    for offset, entry in numbered(history):
        leaving = _effects(admission.draft) if isinstance(entry.body, _FORGETTING) else {}
        if admission.admits(offset, entry):
            found |= leaving
    return found | _effects(admission.draft)


_FORGETTING = (b.TurnEnded, b.Finished, b.Rewound)


def _effects(draft: Draft) -> dict[str, Call]:
    return {key: call for key, call in draft.calls.items() if call.kind == "effect"}
