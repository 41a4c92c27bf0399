"""Items that are too large for an entry or for a state: attachments of their process, with references to them.

An item is attached before the entry that refers to it. That entry expects the seq at which the attachment was seen, and
so does the one that drops attachments which no item refers to: so no item ever refers to bytes that were dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from seekpoint import Ref, State
from seekpoint.adapters.shared_process_calls import SharedProcessCalls
from seekpoint.errors import AppendConflict, UnserializableValue

_LARGE_BYTES = 65_536
_MEDIA_TYPE = "application/json"


async def attached(calls: SharedProcessCalls, items: Sequence[Any]) -> list[Any]:
    """Attach the items of more than 64 KiB; return all, with references for these."""
    return [await _attached(calls, item) for item in items]


async def _attached(calls: SharedProcessCalls, item: Any) -> Any:
    if isinstance(item, Ref):
        return item
    try:
        data = json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as exc:
        raise UnserializableValue(f"an item is not JSON: {exc}", path="$") from exc
    return await calls.attach(data, media_type=_MEDIA_TYPE) if len(data) > _LARGE_BYTES else item


def are_attached(state: State, values: Mapping[str, Any]) -> bool:
    """Whether the state has all attachments that the values refer to."""
    found = (state.attachments.get(value.digest) for value in values.values() if isinstance(value, Ref))
    return all(one is not None and one.is_whole for one in found)


async def item_of(calls: SharedProcessCalls, value: Any) -> Any:
    """Return the item that a value is, or refers to."""
    return json.loads(await calls.read_attachment(value)) if isinstance(value, Ref) else value


async def drop_unused(calls: SharedProcessCalls, process_id: str) -> None:
    """Drop the attachments to which no item refers."""
    state = await calls.known()
    while unused := _unused(state, process_id):
        try:
            await calls.detach(unused, expected_seq=state.seq)
        except AppendConflict as conflict:
            newer: State | None = conflict.state
            assert newer is not None  # of an append, never of another call
            state = newer
        else:
            return


def _unused(state: State, process_id: str) -> list[Ref]:
    texts = state.values_json.values() if state.attachments else ()
    return [
        Ref(digest, one.size, process_id, one.media_type)
        for digest, one in state.attachments.items()
        if one.is_whole and not any(digest in text for text in texts)
    ]
