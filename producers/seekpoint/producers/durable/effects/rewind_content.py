"""Build the content of a rewind: the past content and the effects since then, which must not be called again.

The state has dropped the effects of earlier turns. So a rewind across turns reads them from the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.calls import UNDO, Call, is_compensated, revoked

if TYPE_CHECKING:
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State


def content_to_rewind_to(reader: LogReader, process_id: str, past: State, now: State) -> b.Json:
    """Return the content of ``past`` with the effects since then that ``now`` no longer has, without their positions.

    Blocks. Raises ``JournalGap`` where the history in between was trimmed.
    """
    if now.turn == past.turn:
        return past.content_json()  # the state still has all effects, and the fold keeps them
    since = _effects_since(reader, process_id, past, now.offset + 1)
    undone = {key for key in since if is_compensated(key, {**now.calls, **since})}
    draft = past.thaw()
    for key, call in since.items():
        if key not in now.calls and key.removeprefix(UNDO) not in undone:
            place = past.calls.get(key)  # one that was open then has the outcome that it got since
            draft.calls.put(key, call if place is None else replace(call, position=place.position))
    return draft.freeze().content_json()


def _effects_since(reader: LogReader, process_id: str, past: State, stop: int) -> dict[str, Call]:
    found: dict[str, Call] = {}
    draft, key = past.thaw(), process_key(process_id)
    for batch in reader.read(partition_of(key, reader.partitions), past.offset + 1, stop, {key}):
        for record in batch.records:
            try:
                entry = entry_of(record, reader.codec, reader.partitions)
            except UndecodableRecord:
                continue
            verdict = advance(draft, record.offset, entry, reader.limits)
            if verdict is Verdict.DELIVERED and isinstance(entry.body, b.EffectRevoked) and entry.body.key in found:
                found[entry.body.key] = revoked(found[entry.body.key], entry.ts)
            if verdict is Verdict.APPLIED and isinstance(entry.body, b.EffectIntended | b.EffectSettled):
                found[entry.body.key] = replace(draft.calls[entry.body.key], position=0)
    return found
