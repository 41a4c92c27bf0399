"""A seed: the state that a replayed process starts from, so that its entries fold without the history before them.

It counts only as the very first entry of a process. What it carries is the whole state: content, epoch, owner, seq,
mailbox, remembered ids. Offsets are those of the log it lies in, from its own on.
"""

from __future__ import annotations

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import JournalMismatch, LimitExceeded, NewerFormat, UndecodableRecord
from seekpoint.schemas.folding.content_rules import check_texts, too_big
from seekpoint.schemas.state.process_state import FIELDS, Draft, State

__all__ = ["plant"]

_OWN = frozenset({"offset", "first_offset"})


def plant(draft: Draft, state_json: str, limits: Limits) -> bool:
    """Put the state into ``draft``; False, and nothing is changed, if it is not pristine or the text is no state.

    The state of a newer fold is none here: the codec stops the reader of a journal that has entered a newer format.
    """
    if draft.epoch or draft.seq or draft.remembered or draft.first_offset != draft.offset:
        return False
    try:
        seed = State.from_bytes(state_json.encode())
        check_texts(seed, limits)
    except (JournalMismatch, LimitExceeded, NewerFormat, UndecodableRecord, ValueError):
        return False
    if too_big(seed.content_bytes, limits) is not None:
        return False
    grown = seed.thaw()
    for name in FIELDS.names:
        if name not in _OWN:
            setattr(draft, name, getattr(grown, name))
    return True
