"""The listener of an open under way: it keeps what arrives of the process from before the recovery on.

The fold skips the records that the recovery has read, so that no entry is folded twice and none between is missed.
"""

from __future__ import annotations

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.process_state import State


class ClaimWatch:
    """The records of one process that arrive while it is being opened."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.error: SeekpointError | None = None
        self._records: list[Record] = []

    def absorb(self, records: list[Record], position: int) -> None:
        """Keep ``records``."""
        self._records += records

    def fail(self, error: SeekpointError) -> None:
        """Keep ``error``, which ``folded`` raises: the log is wrong."""
        self.error = error

    def folded(self, state: State, stop: int, reader: LogReader) -> State:
        """Return ``state`` with the entries since, as of everything below ``stop``. Poison changes nothing."""
        if self.error is not None:
            raise self.error
        draft = state.thaw()
        fresh = (record for record in self._records if state.offset < record.offset < stop)
        for record, entry in entries_of(fresh, reader):
            advance(draft, record.offset, entry, reader.limits)
        return draft.freeze()

    def rest(self, start: int) -> list[Record]:
        """Return the records from offset ``start`` on."""
        return [record for record in self._records if record.offset >= start]
