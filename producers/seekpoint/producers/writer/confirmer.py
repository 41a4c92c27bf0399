"""Confirmation (rule O4): the fold applies the acknowledged entries once the tailer has come to them.

One tail serves all callers that wait in a partition. A failed read fences nobody: it only makes callers wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial

from seekpoint.consumers.log_reading.stable_end import hidden_end_error
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.tail.tailer import Tailer
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.node_metrics import Histogram
from seekpoint.schemas.errors import ConfirmTimeout, SeekpointError, TransactionOpen
from seekpoint.schemas.log.log_ports import LogReader

logger = logging.getLogger("seekpoint.producers")

_IDLE_READ_S = 30.0
"""How often an idle partition is read: what was not read could be trimmed. At least once in ``owner_timeout_s``, so
that a former owner which writes nothing learns of its successor."""


class Confirmer:
    """Confirms the open processes of one node. ``start`` before use, ``close`` after."""

    def __init__(
        self,
        reader: LogReader,
        executor: Executor,
        handles: Callable[[], Iterable[Handle]],
        tailer: Tailer,
        interval_s: float,
        timeout_s: float,
        confirm_s: Histogram | None = None,
        idle_read_s: float = _IDLE_READ_S,
    ) -> None:
        self._idle_read_s = idle_read_s
        self._confirm_s = Histogram() if confirm_s is None else confirm_s
        self._reader = reader
        self._executor = executor
        self._handles = handles
        self._tailer = tailer
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._rounds: asyncio.Task[None] | None = None
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Begin the rounds: each acknowledged entry is confirmed, or its owner fenced, within the interval."""
        self._rounds = asyncio.create_task(self._go_round(), name="seekpoint-confirm")

    async def close(self) -> None:
        """End the rounds."""
        tasks = [task for task in (self._rounds, *self._under_way.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tail_of(self, handle: Handle) -> PartitionTail:
        """Return the tail that ``handle`` listens to. The tail stays as long as the handle is attached."""
        return self._tailer.tail_from(handle.partition, handle.position)

    async def confirm(self, handle: Handle, offset: int) -> None:
        """Return once the acknowledged entry at ``offset`` is folded. The caller checks the handle."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.wait_for(handle, offset + 1)
        self._confirm_s.observe(loop.time() - began)

    async def wait_for(self, handle: Handle, position: int) -> None:
        """Return once the partition is folded below ``position`` for ``handle``.

        The caller checks the handle, which may be closed then: fenced, or the log is wrong. Raises ``ConfirmTimeout``
        after ``confirm_timeout_s``.
        """
        if not handle.is_open or (handle.position >= position and not handle.awaits(position - 1)):
            return
        tail = self.tail_of(handle)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._tailer.wait_for(tail, position)
        except TimeoutError as exc:
            raise await self._late(tail.partition, position, process_id=handle.process_id) from exc
        except SeekpointError as exc:
            handle.fail(exc)
            return
        if handle.is_open and (handle.position < position or handle.awaits(position - 1)):
            tail.bring(handle)

    async def to_end(self, handle: Handle, fresh_s: float = 0.0) -> None:
        """Fold everything that is in the partition now (new mail, other claims). It may have lost its end.

        Nothing is read if that was done, or a batch came, within ``fresh_s``: many handles share a partition.
        """
        loop, tail = asyncio.get_running_loop(), self.tail_of(handle)
        was_read, began = tail.position, loop.time()
        if began - max(tail.read_at, tail.ended_at) < fresh_s:
            return
        tail.ended_at = began
        marks = await loop.run_in_executor(self._executor, self._reader.watermarks, handle.partition)
        if marks.high < was_read:
            await self._tailer.check_end(tail)
        await self.wait_for(handle, marks.high)

    @asynccontextmanager
    async def watching(self, handle: Handle) -> AsyncIterator[None]:
        """While inside, fold what arrives in the partition as soon as it arrives."""
        tail = self.tail_of(handle)
        self._tailer.watch(tail, 1)
        try:
            yield
        finally:
            self._tailer.watch(tail, -1)

    async def _go_round(self) -> None:
        """Begin a round every half interval, so that an entry is confirmed when it is at most one interval old.

        Each partition has rounds of its own: one that cannot be read does not delay the others.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._interval_s / 2)
            due: dict[int, list[Handle]] = {}
            idle: dict[int, Handle] = {}
            for handle in self._handles():
                if handle.unconfirmed is not None:
                    due.setdefault(handle.partition, []).append(handle)
                elif loop.time() - self.tail_of(handle).read_at > min(_IDLE_READ_S, self._idle_read_s):
                    idle[handle.partition] = handle
            for partition, handles in due.items():
                self._begin(partition, partial(self._confirm, handles))
            for partition, handle in idle.items():
                self._begin(partition, partial(self._read_idly, handle))

    def _begin(self, partition: int, work: Callable[[], Coroutine[None, None, None]]) -> None:
        if (under_way := self._under_way.get(partition)) is None or under_way.done():
            self._under_way[partition] = asyncio.create_task(work(), name="seekpoint-round")

    async def _confirm(self, handles: list[Handle]) -> None:
        """Wait once for all ``handles``, then bring each to the tail's position."""
        position = max(handle.unconfirmed or 0 for handle in handles) + 1
        tail, loop = self.tail_of(handles[0]), asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._tailer.wait_for(tail, position)
            self._confirm_s.observe(loop.time() - began)
        except TimeoutError:
            logger.warning("confirmation waits: %s", await self._late(tail.partition, position))
            return
        except SeekpointError as exc:
            for handle in handles:
                handle.fail(exc)
            return
        for handle in handles:
            if handle.is_open and handle.unconfirmed is not None:
                self.tail_of(handle).bring(handle)

    async def _read_idly(self, handle: Handle) -> None:
        try:
            await self.to_end(handle)
        except SeekpointError as exc:
            logger.info("partition %d is not read: %s", handle.partition, exc)

    async def why_late(self, partition: int, position: int) -> TransactionOpen | None:
        """Return the error that names the open transaction which hides records below ``position``, if there is one."""
        try:
            ask = self._reader.extent
            extent = await asyncio.get_running_loop().run_in_executor(self._executor, ask, partition)
        except SeekpointError:
            return None
        return hidden_end_error(extent, partition) if extent.high < position <= extent.end else None

    async def _late(self, partition: int, position: int, process_id: str | None = None) -> ConfirmTimeout:
        why = await self.why_late(partition, position)
        message = "the partition could not be read in time" if why is None else why.message
        error = ConfirmTimeout(message, partition=partition, offset=position - 1, process_id=process_id)
        if why is not None:
            error.hint, error.hidden_from, error.end = why.hint, why.offset, why.end
        return error
