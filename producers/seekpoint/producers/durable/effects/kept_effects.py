"""What a rewind keeps beside the past: the effects that were made since. None of them may ever be fired again.

Those of turns that are over have left the state; the history still has them. So a rewind across turns reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.calls import Call, call_row

if TYPE_CHECKING:
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State

__all__ = ["content_to_rewind_to"]


def content_to_rewind_to(reader: LogReader, process_id: str, past: State, now: State) -> b.Json:
    """The content of ``past``, and the effects since then that ``now`` no longer has, without a place in the order.

    Blocks. Raises ``JournalGap`` where the history in between was trimmed.
    """
    content = past.content_json()
    if now.turn == past.turn:
        return content  # all of them are still in the state, where the fold itself keeps them
    told = orjson.loads(content)
    since = _effects_since(reader, process_id, past, now.offset + 1)
    told["calls"] = {
        **{key: call_row(call) for key, call in since.items() if key not in now.calls},
        **told.get("calls", {}),
    }
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()


def _effects_since(reader: LogReader, process_id: str, past: State, stop: int) -> dict[str, Call]:
    found: dict[str, Call] = {}
    draft, key = past.thaw(), process_key(process_id)
    for batch in reader.read(partition_of(key, reader.partitions), past.offset + 1, stop, {key}):
        for record in batch.records:
            try:
                entry = entry_of(record, reader.codec, reader.partitions)
            except UndecodableRecord:
                continue
            applied = advance(draft, record.offset, entry, reader.limits) is Verdict.APPLIED
            if applied and isinstance(entry.body, b.EffectIntended | b.EffectSettled):
                found[entry.body.key] = draft.calls[entry.body.key]._replace(position=0)
    return found
