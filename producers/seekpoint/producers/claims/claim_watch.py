"""An open under way, as a listener of its lane: what comes of its process from before it was recovered.

What the recovery read is skipped by the fold, so nothing is folded twice and nothing between is missed.
"""

from __future__ import annotations

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import SeekpointError, UndecodableRecord
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.process_state import State

__all__ = ["ClaimWatch"]


class ClaimWatch:
    """Keeps the records of one process that come while it is being opened."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.error: SeekpointError | None = None
        self._records: list[Record] = []

    def absorb(self, records: list[Record], position: int) -> None:
        """Keep them."""
        self._records += records

    def fail(self, error: SeekpointError) -> None:
        """The log is wrong: ``folded`` will say so."""
        self.error = error

    def folded(self, state: State, stop: int, reader: LogReader) -> State:
        """``state`` and what came since, as of everything below ``stop``. Poison changes nothing."""
        if self.error is not None:
            raise self.error
        draft = state.thaw()
        for record in self._records:
            if state.offset < record.offset < stop:
                try:
                    entry = entry_of(record, reader.codec, reader.partitions)
                except UndecodableRecord:
                    continue
                advance(draft, record.offset, entry, reader.limits)
        return draft.freeze()

    def rest(self, start: int) -> list[Record]:
        """What came from ``start`` on."""
        return [record for record in self._records if record.offset >= start]
