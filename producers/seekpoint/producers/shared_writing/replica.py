"""The state of a process that another node has claimed, kept current: the next claim of it needs no recovery."""

from __future__ import annotations

import asyncio

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.tail.followed_values import FollowedValue
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.state.process_state import Draft


class Replica(FollowedValue):
    """A followed process. It also knows whether the newest claim was used: its owner has written since."""

    def __init__(self, process_id: str, reader: LogReader, unused_since_seq: int | None = None) -> None:
        super().__init__(process_id, reader)
        self._claim_seq = unused_since_seq
        """The process's seq at the newest claim; None if it is not known."""
        self.claimed_at = asyncio.get_running_loop().time()
        """When this node learned of that claim."""
        self.changed = asyncio.Event()
        """Set at each record of the process."""

    @property
    def is_claim_unused(self) -> bool:
        """Whether a node has claimed the process, and has not written yet, as far as this node knows."""
        draft = self.peek()
        return draft is not None and draft.owner is not None and draft.seq == self._claim_seq

    def is_owned_by(self, boot_id: str) -> bool:
        """Whether a claim of the node's boot ``boot_id`` is the newest one."""
        draft = self.peek()
        return draft is not None and draft.owner_boot == boot_id

    def _fold(self, draft: Draft, record: Record) -> None:
        for _, entry in entries_of([record], self._reader):
            if advance(draft, record.offset, entry, self._reader.limits) is Verdict.CLAIM_WON:
                self._claim_seq, self.claimed_at = draft.seq, asyncio.get_running_loop().time()
        self.changed.set()
