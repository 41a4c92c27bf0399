"""Reads of processes by a program that follows partitions: what is proven not to exist is not read again.

A recovery that finds no process reads the whole partition. So the first such read follows the partition for a while,
and asks for a proof of which processes do not exist (``proven_absence``). With the proof, a later read of a process
that does not exist costs one request for the end of the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.schemas.errors import SeekpointError, UnknownProcess
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recovery import Recovery
    from seekpoint.consumers.recovery.recovery_report import Report
    from seekpoint.producers.tail.tailer import Tailer
    from seekpoint.schemas.log.log_ports import Extent, LogReader


class ProcessReads:
    """The reads of one node or client, for its event loop."""

    def __init__(self, reader: LogReader, recovery: Recovery, tailer: Tailer, threads: Executor, wait_s: float) -> None:
        self._reader = reader
        self._recovery = recovery
        self._tailer = tailer
        self._threads = threads
        self._wait_s = wait_s
        """How long a read waits for the tail before it reads the log."""
        self._extents: dict[int, asyncio.Task[Extent]] = {}
        """By partition: the request for its end that is under way."""

    async def recover(self, process_id: str, *, missing_ok: bool = False, must_be_current: bool = False) -> Recovered:
        """Return the state of a process as of now; see ``Recovery.recover``."""
        report = await self._absence(process_id)
        if report is not None:
            if not missing_ok:
                raise self._unknown(process_id)
            return Recovered(state=new_state(), report=report, known=False)
        try:
            found = await self._recovery.recover(process_id, missing_ok=missing_ok, must_be_current=must_be_current)
        except UnknownProcess:
            await self._expect_absence(process_id)
            raise
        if not found.known:
            await self._expect_absence(process_id)
        return found

    async def entries(
        self, process_id: str, *, from_seq: int | None = None, kinds: Collection[str] | None = None,
        limit: int | None = None, follow: bool = False,
    ) -> AsyncIterator[Logged]:  # fmt: skip
        """Yield the entries of a process in log order; see ``Recovery.entries``."""
        if not follow and await self._absence(process_id) is not None:
            raise self._unknown(process_id)
        try:
            entries = self._recovery.entries(process_id, from_seq=from_seq, kinds=kinds, limit=limit, follow=follow)
            async for logged in entries:
                yield logged
        except UnknownProcess:
            await self._expect_absence(process_id)
            raise

    def _unknown(self, process_id: str) -> UnknownProcess:
        return UnknownProcess("no such process", journal=self._reader.name, process_id=process_id)

    async def _absence(self, process_id: str) -> Report | None:
        """Return the report of a read that finds no such process by now. None: the log has to be read.

        A process that may exist costs nothing here.
        """
        key = named_process_key(process_id)
        if not self._tailer.is_started:
            return None
        self._tailer.check_loop()
        partition = partition_of(key, self._reader.partitions)
        tail = self._tailer.tail(partition)
        if tail is None or tail.absence.report(key, tail.position) is None:
            return None
        with suppress(TimeoutError, SeekpointError):  # the read of the log tells what is wrong
            async with asyncio.timeout(self._wait_s):
                was_read = tail.position
                extent = await self._extent_by_now(partition)
                if extent.hidden or extent.high < was_read:  # below it: the log was truncated, or made again
                    return None
                await self._tailer.wait_for(tail, extent.high)
                return tail.absence.report(key, tail.position)
        return None

    async def _expect_absence(self, process_id: str) -> None:
        """Follow the partition for a while, and prove which processes do not exist: more such reads may follow."""
        if not self._tailer.is_started:
            return
        partition = partition_of(named_process_key(process_id), self._reader.partitions)
        with suppress(SeekpointError):  # the next read reads the log again, and tells what is wrong
            tail = self._tailer.tail(partition)
            if tail is None:
                tail = self._tailer.tail_from(partition, (await self._extent_by_now(partition)).high)
            self._tailer.want_proof(tail)

    async def end_of(self, partition: int) -> int:
        """Return the offset at which a partition ends for readers, at this call or later."""
        return (await self._extent_by_now(partition)).high

    async def _extent_by_now(self, partition: int) -> Extent:
        """Return where the partition ends, at this call or later. Calls at the same time share one request."""
        under_way = self._extents.get(partition)
        if under_way is not None:
            with suppress(Exception):  # its own callers get the error; it may have been answered before this call
                await asyncio.shield(under_way)
            following = self._extents.get(partition)
            if following is not None and following is not under_way:
                return await asyncio.shield(following)
        request = self._extents[partition] = asyncio.ensure_future(self._asked_extent(partition))
        request.add_done_callback(lambda done: done.cancelled() or done.exception())  # no caller may be left to get it
        return await asyncio.shield(request)

    async def _asked_extent(self, partition: int) -> Extent:
        try:
            ask = partial(self._reader.extent, partition)
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        finally:
            del self._extents[partition]
