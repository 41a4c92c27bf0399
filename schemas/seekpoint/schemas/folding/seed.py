"""A seed: the state that a replayed process starts from, so that its entries fold without the history before them.

It counts only as the first entry of a process. It carries the whole state: content, epoch, owner, seq, mailbox and
remembered ids. Only the offsets are those of the log that the seed is in.
"""

from __future__ import annotations

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import JournalMismatch, LimitExceeded, NewerFormat, UndecodableRecord
from seekpoint.schemas.folding.content_rules import check_texts, too_big
from seekpoint.schemas.state.process_state import FIELDS, Draft, State

_NOT_SEEDED = frozenset({"offset", "first_offset", "updated_us", "attached_at"})
"""The offsets of the other log say nothing in this one. The bytes of attachments are not here either."""


def apply_seed(draft: Draft, state_json: str, limits: Limits) -> bool:
    """Put the seed's state into ``draft`` and return True.

    Returns False, and changes nothing, if ``draft`` is not pristine or the text holds no valid state. The state of a
    newer fold is not valid here: in a journal of a newer format, the codec has stopped the reader before.
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
    seeded = seed.thaw()
    for name in FIELDS.names:
        if name not in _NOT_SEEDED:
            setattr(draft, name, getattr(seeded, name))
    return True
