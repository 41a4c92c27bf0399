"""What a projector makes of a batch: entries folded per process, and the changes a view is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.process_state import State, new_state

__all__ = ["fold_batch"]

_REPLACING = (b.Rewound, b.Forked, b.Promoted, b.Finished, b.ContextCleared)


def fold_batch(before: Mapping[bytes, State], entries: Iterable[tuple[int, bytes, Entry]]) -> list[Change]:
    """The changes of a batch of (offset, key, entry), folded on the states of ``before``."""
    after: dict[bytes, State] = {}
    whole = set()
    for offset, key, entry in entries:
        after[key] = fold(after.get(key) or before.get(key) or new_state(), offset, entry)
        if key not in before or isinstance(entry.body, _REPLACING):
            whole.add(key)
    return [_change(key, before.get(key), state, key in whole) for key, state in after.items()]


def _change(key: bytes, before: State | None, state: State, whole: bool) -> Change:
    if whole or before is None:
        return Change(key=key, state=state, whole=True)
    old, new = before.values_json, state.values_json
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    mail = list(before.mailbox) != list(state.mailbox) or list(before.remembered) != list(state.remembered)
    added = state.conversation.newest(len(state.conversation) - len(before.conversation))
    was, now = before.calls, state.calls
    calls = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
    frames = (before.start_frame, before.turn_frame) != (state.start_frame, state.turn_frame)
    digests = {
        digest for digest in {*before.attachments, *state.attachments}
        if (before.attachments.get(digest), before.attached_at.get(digest))
        != (state.attachments.get(digest), state.attached_at.get(digest))
    }  # fmt: skip
    return Change(
        key=key, state=state, base=before, context_keys=frozenset(changed), call_keys=frozenset(calls), frames=frames,
        folds=before.folds != state.folds, digests=frozenset(digests), messages=added, mail=mail,
    )  # fmt: skip
