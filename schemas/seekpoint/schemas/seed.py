"""A seed: the state that a replayed process starts from, so that its entries fold without the history before them.

It counts only as the very first entry of a process. What it carries is the whole state: content, epoch, owner, seq,
mailbox, remembered ids. Offsets are those of the log it lies in, from its own on.
"""

from __future__ import annotations

from seekpoint.schemas.content import dynamic_texts
from seekpoint.schemas.errors import JournalMismatch, LimitExceeded, UndecodableRecord
from seekpoint.schemas.limits import DEFAULT_LIMITS
from seekpoint.schemas.state import Draft, State
from seekpoint.schemas.values import check

__all__ = ["plant"]

_OWN = frozenset({"offset", "first_offset"})


def plant(draft: Draft, state_json: str) -> bool:
    """Put the state into ``draft``; False, and nothing is changed, if it is not pristine or the text is no state.

    Raises ``NewerFormat`` for the state of a newer fold: who cannot read it must stop, not skip it.
    """
    if draft.epoch or draft.seq or draft.remembered or draft.first_offset != draft.offset:
        return False
    try:
        seed = State.from_bytes(state_json.encode())
        for text in (*dynamic_texts(seed), *(item.payload_json for item in seed.mailbox.values())):
            check(text, DEFAULT_LIMITS)
    except (JournalMismatch, LimitExceeded, UndecodableRecord, UnicodeEncodeError):
        return False
    grown = seed.thaw()
    for name in Draft.__slots__:
        if name not in _OWN:
            setattr(draft, name, getattr(grown, name))
    return True
