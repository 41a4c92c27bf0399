"""One run of ActiveGraph as the process of a journal: what its store reads and writes, in the node's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from seekpoint import Node, State
from seekpoint.adapters.activegraph.run_content import (
    KINDS,
    TRUNCATED_KIND,
    Archive,
    Row,
    RunContent,
    StoredEvent,
    payloads_of,
)
from seekpoint.adapters.activegraph.store_errors import duplicate_event, event_not_found, stale_writer
from seekpoint.errors import AppendConflict

if TYPE_CHECKING:
    from seekpoint import Appended, SharedProcess

RUN_KEY, ARCHIVE_KEY = "run", "archive"


class RunProcess:
    """A run, its events, and the newest event that this writer knows of."""

    def __init__(self, node: Node, process_id: str, run_id: str) -> None:
        self._node = node
        self._process_id = process_id
        self._run_id = run_id
        self._process: SharedProcess | None = None
        self._lock = asyncio.Lock()
        self._seq, self._offset, self._deleted_seq = 0, -1, 0
        """The newest entry that is in ``content``, and the newest deletion of the process."""
        self.content = RunContent()
        self._expected: tuple[int, str | None, int] = (0, None, 0)

    # --- reading
    async def open(self) -> None:
        """Read the run. Its newest event is the one that the first write of this writer expects."""
        async with self._lock:
            await self._read()
            self._expect()

    async def state(self) -> State:
        """Return the state of the run's process as of now."""
        process = await self._opened()
        return await process.read()

    async def events(self) -> list[StoredEvent]:
        """Return the run's events as of now, without those in the archive."""
        async with self._lock:
            await self._read()
            return list(self.content.events)

    async def find(self, event_id: str) -> StoredEvent | None:
        """Return the event with an id; None: there is none outside of the archive."""
        async with self._lock:
            await self._read()
            return self.content.by_id.get(event_id)

    async def archive(self) -> Archive:
        """Return what is in the archive now."""
        async with self._lock:
            await self._read()
            return self.content.archive

    async def archived(self) -> list[StoredEvent]:
        """Return the events in the archive. Reads the run from its first entry on."""
        archive, content = await self.archive(), RunContent()
        async with aclosing(self._records(-1)) as records:
            async for _, kind, payload, offset in records:
                content.apply(kind, payload, offset)
        return [event for event in content.events if event.number < archive.before]

    # --- writing
    async def append(self, rows: Sequence[Row]) -> None:
        """Append events, each of which has a new id. What fits into one record is written whole or not at all.

        Raises ``ConcurrentWriterError`` and ``DuplicateEventError``.
        """
        async with self._lock:
            for row in rows:
                if row["id"] in self.content.by_id:
                    await self._read()
                    self._refuse_stale()
                    raise duplicate_event(row["id"], self._run_id)
            begins: int | None = None
            at = 0
            for kind, payload, count in payloads_of(rows):
                done = await self._write(kind, payload)
                begins = done.offset if begins is None else begins
                if count:
                    self.content.add(rows[at : at + count], begins)
                    self._expect()
                    at, begins = at + count, None

    async def truncate(self, event_id: str) -> None:
        """Drop the events after one. Raises ``ConcurrentWriterError`` and ``EventNotFoundError``."""
        async with self._lock:
            await self._read()
            self._refuse_stale()
            event = self.content.by_id.get(event_id)
            if event is None:
                raise event_not_found(event_id, self._run_id)
            if event.number < self.content.head:
                await self._write(TRUNCATED_KIND, {"after": event.number})
                self.content.truncate(event.number)
                self._expect()

    async def put_in_archive(self, before: int, archived_at: str) -> int:
        """Move the events before a number into the archive; return how many were moved."""
        process = await self._opened()
        async with self._lock:
            while True:
                state = await self._read()
                archive = self.content.archived(before, state.offset)
                moved = archive.size - self.content.archive.size
                if not moved:
                    return 0
                is_whole = archive.size == self.content.retained
                value = {**archive._asdict(), "archived_at": archived_at, "is_whole": is_whole, "seq": self._seq + 1}
                try:
                    done = await process.change(set={ARCHIVE_KEY: value}, expected_seq=self._seq)
                except AppendConflict:
                    continue
                self._wrote(done)
                self.content.take(archive)
                return moved

    async def describe(self, values: Mapping[str, str | None]) -> None:
        """Set those of the run's values that are not None; ``created_at`` only once."""
        process = await self._opened()
        async with self._lock:
            state = await process.read()
            while True:
                known: dict[str, str | None] = state.context.get(RUN_KEY) or dict.fromkeys(values)
                created = known.get("created_at") or values["created_at"]
                after = {
                    **known, **{key: value for key, value in values.items() if value is not None}, "created_at": created
                }  # fmt: skip
                if after == known:
                    return
                try:
                    done = await process.change(set={RUN_KEY: after}, expected_seq=state.seq)
                except AppendConflict as exc:
                    state = exc.state
                    continue
                if done.seq == self._seq + 1:
                    self._wrote(done)
                return

    # --- the process
    async def _opened(self) -> SharedProcess:
        if self._process is None:
            self._process = await self._node.open(self._process_id, shared=True)
        return self._process

    async def _write(self, kind: str, payload: Mapping[str, Any]) -> Appended:
        """Write a record if nobody has written an event since this writer read the run.

        Other entries, such as the run's description by another handle, are no reason to refuse it.
        """
        process = await self._opened()
        self._refuse_stale()
        while True:
            try:
                done = await process.record(kind, payload, expected_seq=self._seq)
            except AppendConflict:
                await self._read()
                self._refuse_stale()
            else:
                self._wrote(done)
                return done

    def _wrote(self, done: Appended) -> None:
        self._seq, self._offset = done.seq, done.offset

    def _expect(self) -> None:
        self._expected = self._head()

    def _head(self) -> tuple[int, str | None, int]:
        return self.content.head, self.content.head_id, self.content.retained

    def _refuse_stale(self) -> None:
        if self._head()[0] != self._expected[0]:
            raise stale_writer(self._run_id, self._expected, self._head())

    async def _read(self) -> State:
        """Read what is new of the run. ``content`` has every event then that was written before the call."""
        state = await (await self._opened()).read()
        if state.deleted_seq != self._deleted_seq:  # all of it is gone, and what followed is another run
            self._seq, self._offset, self._deleted_seq = 0, -1, state.deleted_seq
            self.content = RunContent()
        if state.seq == self._seq:
            return state
        archive = Archive.of(state.context.get(ARCHIVE_KEY))
        if self._seq == 0:
            self.content = RunContent(archive)
            self._offset = -1 if archive.after_offset is None else archive.after_offset
        async with aclosing(self._records(self._offset)) as records:
            async for seq, kind, payload, offset in records:
                if seq > self._seq:
                    self.content.apply(kind, payload, offset)
                    self._seq, self._offset = seq, offset
        if state.seq > self._seq:
            self._seq, self._offset = state.seq, state.offset
        if archive != self.content.archive:
            self.content.take(archive)
        return state

    async def _records(self, after_offset: int) -> AsyncGenerator[tuple[int, str, Mapping[str, Any], int], None]:
        """Yield seq, kind, payload and offset of the records behind an offset."""
        after: dict[str, Any] = {} if after_offset < 0 else {"after_offset": after_offset}
        records = self._node.records(self._process_id, kinds=KINDS, through_forks=False, **after)
        async for record in records:
            assert record.seq is not None
            yield record.seq, record.kind, record.payload, record.offset
