"""The fold's rule for a deletion: the process begins anew, under the same id.

What orders its entries goes on: epoch, owner, seq, and the ids of the external entries that it has taken. So no writer
mistakes the new process for the old one, and no entry of the old one is applied to the new one.
"""

from __future__ import annotations

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.content_rules import Misfit
from seekpoint.schemas.state.process_state import COUNTERS, FIELDS, Draft

_KEPT = frozenset(
    {"offset", "first_offset", "updated_us", "epoch", "owner", "owner_node", "owner_boot", "seq", "remembered"}
    | {*COUNTERS}
)
_RESET = tuple(one for one in FIELDS.fields if one.name not in _KEPT)


def delete(draft: Draft, body: b.Deleted, limits: Limits) -> Misfit:
    """Give every field its first value, but those that order the entries. A process whose code made calls is refused.

    An effect has happened outside, under a key that the process's id is part of: the next process of the id would
    make it again, or take it for its own.
    """
    made = next((what for what, has in _CALLS if has(draft)), None)
    if made is not None:
        return "illegal_delete", f"the process has {made}: only a process that holds content alone is deleted"
    for one in _RESET:
        setattr(draft, one.name, one.new())
    draft.started_us, draft.deleted_seq = draft.updated_us, draft.seq + 1
    return None


_CALLS = (
    ("an agent", lambda draft: draft.agent is not None or draft.submission is not None),
    ("calls", lambda draft: draft.calls or draft.turn or draft.forgotten),
    ("compensations to make", lambda draft: draft.obligations),
)
