"""The entry ids that an owner's callers chose: whoever repeats a write with the same id gets the first result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.writer.written_ids import WrittenIds, check_entry_id

if TYPE_CHECKING:
    from seekpoint.producers.writer.handle import Handle
    from seekpoint.producers.writer.pending import Pending
    from seekpoint.schemas.log.log_ports import LogReader

IDS_KEPT = 16_384
"""An id is known at least while its entry is among so many newest ones of the process. They take about 10 MB."""


class OwnIds:
    """The ids in the history of one open process, read at the first use, and those that its owner has sent since."""

    def __init__(self, handle: Handle, reader: LogReader, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._handle = handle
        self._reader = reader
        self._in_thread = in_thread
        self._reading = asyncio.Lock()
        self._under_way: dict[bytes, tuple[Pending, asyncio.Future[int]]] = {}
        self._own: dict[bytes, tuple[int, int]] = {}
        self._stop = handle.position
        """The log below it has every entry of the former owners that counts: the process was claimed there or before.
        It may have others, of seqs that this owner writes: those of fenced owners, and those that were abandoned."""
        known = handle.peek()
        start = handle.position if known.seq == 0 or known.first_offset is None else known.first_offset
        self._ids = WrittenIds(handle.key, handle.partition, start, seqs_kept=IDS_KEPT)

    async def find(self, entry_id: bytes) -> tuple[int, int] | None:
        """Return seq and offset of the entry that has the id; None: no entry has it, and it may be sent now.

        Waits for one that is under way, and raises what becomes of it.
        """
        check_entry_id(self._handle.process_id, entry_id)
        async with self._reading:
            if self._ids.read_to < self._stop:
                await self._in_thread(partial(self._ids.read, self._reader, self._stop))
        if entry_id in self._under_way:
            pending, future = self._under_way[entry_id]
            await asyncio.shield(future)
            self._note(pending)
        own = self._own.get(entry_id)
        return self._ids.find(entry_id, self._handle.claimed_seq) if own is None else own

    def sent(self, pending: Pending, future: asyncio.Future[int]) -> None:
        """Take note of an entry with an id of its caller's that was sent. ``future`` tells when it is in the log."""
        self._under_way[pending.entry.id] = pending, future
        future.add_done_callback(lambda _: self._note(pending))

    def _note(self, pending: Pending) -> None:
        if self._under_way.pop(pending.entry.id, None) is not None and pending.offset is not None:
            self._own[pending.entry.id] = pending.seq, pending.offset
            if len(self._own) > IDS_KEPT:
                del self._own[next(iter(self._own))]  # the oldest one
