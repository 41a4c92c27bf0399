"""An owner's entries that nobody waits for: how many may be under way, and the wait until all are in the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.producers.writer.handle import Handle
    from seekpoint.producers.writer.pending import Pending

ENTRIES_MAX, BYTES_MAX = 1_000, 8_388_608
"""The most entries of a process that are under way, and bytes: a crash may lose them, and they are in memory."""
_TURN = 50
"""After so many entries in a row the event loop goes on: the outbox sends them, and others get their turn."""


class Pipeline:
    """The entries of one open process that are sent and not yet acknowledged."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._bytes = 0
        """Of the entries since the last wait."""
        self._turn = 0

    async def make_room(self) -> None:
        """Return once the entries under way, with the newest one, are within the limits. Raises the first failure."""
        pending = self._handle.pending
        self._bytes += len(pending[-1].value) if pending else 0
        self._turn += 1
        if self._bytes > BYTES_MAX:
            await self.flush()
        elif len(pending) >= ENTRIES_MAX:
            await self._acknowledged(pending[ENTRIES_MAX // 2])
        elif self._turn % _TURN == 0:
            await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return once all entries that were sent by now are acknowledged. Raises the first failure."""
        self._bytes = 0
        if self._handle.pending:
            await self._acknowledged(self._handle.pending[-1])

    async def _acknowledged(self, pending: Pending) -> None:
        """Return once ``pending``, and so every entry before it, is in the log."""
        while self._handle.is_open and self._handle.acknowledged_seq < pending.seq:
            future = pending.future
            if future is None or future.cancelled():
                future = pending.future = asyncio.get_running_loop().create_future()
            await asyncio.wait({future})  # cancelled with the caller that made it: this one goes on
            if not future.cancelled():
                future.result()
