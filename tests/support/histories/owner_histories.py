"""Histories of one owner, body by body: each fits, or it is said that it does not."""

from __future__ import annotations

from entry_examples import claim, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.state.process_state import State, new_state

__all__ = ["after", "fits", "folded"]


def folded(*entries: Entry, start: State | None = None) -> State:
    """The state after ``entries`` at the offsets that follow."""
    state = new_state() if start is None else start
    for offset, entry in enumerate(entries, state.offset + 1):
        state = fold(state, offset, entry)
    return state


def after(*bodies: b.Body, start: State | None = None) -> State:
    """The state behind the owner's ``bodies``, each of which fits."""
    state = folded(claim(1)) if start is None else start
    for body in bodies:
        state = folded(own(state.seq + 1, body), start=state)
        assert state.degraded is None, (body, state.degraded)
    return state


def fits(state: State, body: b.Body) -> bool:
    """Whether ``body`` fits as the owner's next entry; if not, it leaves no trace but its seq."""
    draft = state.thaw()
    verdict = advance(draft, state.offset + 1, own(state.seq + 1, body))
    if verdict is Verdict.MISFIT:
        assert draft.degraded is not None
        assert draft.degraded.reason == "illegal_call"
        assert draft.freeze().calls == state.calls
    return verdict is Verdict.APPLIED
