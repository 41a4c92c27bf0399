"""Read what was applied to a process after a moment of its past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import State

_COUNTS = frozenset({Verdict.APPLIED, Verdict.DELIVERED})


def entries_after(reader: LogReader, process_id: str, past: State) -> list[Entry]:
    """Return the entries that were applied after ``past``, in log order: not those of fenced owners. Blocks."""
    key = process_key(process_id)
    partition = partition_of(key, reader.partitions)
    batches = reader.read(partition, past.offset + 1, reader.watermarks(partition).high, {key})
    draft = past.thaw()
    return [
        entry
        for batch in batches
        for record, entry in entries_of(batch.records, reader)
        if advance(draft, record.offset, entry, reader.limits) in _COUNTS
    ]
