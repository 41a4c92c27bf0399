"""Compare the inbox with the processes that exist: a submission that its group's offset skips is in neither.

Offsets of a group may be set by hand, or lost and begun anew behind records that nobody read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Protocol

from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.submissions import SubmissionRecord, decode_submission

_RECORDS_MAX = 2_000
"""How many records of a partition one look compares. The next look goes on behind them."""


class TakenInbox(Protocol):
    """The inbox, as far as groups of workers have taken it. Blocks."""

    def ends(self) -> Mapping[int, int]:
        """Return for each partition the offset below which a group has taken all submissions."""

    def read(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        """Yield the records in [start, stop) that are still there."""


class SkippedSubmissions:
    """Finds submissions that were passed over. Each is returned once."""

    def __init__(self, inbox: TakenInbox, recovery: Recovery) -> None:
        self._inbox = inbox
        self._recovery = recovery
        self._compared: dict[int, int] = {}
        """By partition: the offset below which all was compared."""
        self._found: set[bytes] = set()

    async def look(self, before_ms: int) -> list[SubmissionRecord]:
        """Return the submissions from before ``before_ms`` that groups have passed, and that no process has."""
        skipped: list[SubmissionRecord] = []
        for partition, end in sorted((await asyncio.to_thread(self._inbox.ends)).items()):
            start = self._compared.get(partition, 0)
            stop, wanted = await asyncio.to_thread(self._read, partition, start, end, before_ms)
            if wanted:
                states = await self._recovery.recover_many({one.process_id for one in wanted})
                for one in wanted:
                    state = states[one.process_id].state
                    is_there = state.run_identity is not None or state.finished or state.deleted_seq
                    if not is_there and one.id not in self._found:
                        self._found.add(one.id)
                        skipped.append(one)
            self._compared[partition] = stop
        return skipped

    def _read(self, partition: int, start: int, end: int, before_ms: int) -> tuple[int, list[SubmissionRecord]]:
        """Return where the next look begins, and the submissions up to there."""
        wanted: list[SubmissionRecord] = []
        for count, record in enumerate(self._inbox.read(partition, start, end)):
            if count >= _RECORDS_MAX or record.timestamp_ms >= before_ms:
                return record.offset, wanted
            try:
                wanted.append(decode_submission(record.value))
            except UndecodableRecord:
                continue  # the group makes a dead letter of it
        return end, wanted
