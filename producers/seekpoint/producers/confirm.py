"""Confirmation (rule O4): reading the partition to see what the fold makes of what was acknowledged.

One pass a partition at a time serves everyone who waits on it, and every other open process of that partition whose
position lies in what is read anyway. Failing to read is not being fenced: it only makes those wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from seekpoint.producers.handle import Handle, Status
from seekpoint.schemas.errors import ConfirmTimeout, SeekpointError, TryAgain
from seekpoint.schemas.log import Batch, LogReader, Record

__all__ = ["Confirmer"]

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_RETRY_S = 0.05


@dataclass(slots=True)
class _Lane:
    """The passes of one partition."""

    wanted: dict[Handle, int] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class Confirmer:
    """Confirms the open processes of one node. ``start`` before use, ``close`` after."""

    def __init__(
        self,
        reader: LogReader,
        executor: Executor,
        handles: Callable[[], Iterable[Handle]],
        interval_s: float,
        timeout_s: float,
    ) -> None:
        self._reader = reader
        self._executor = executor
        self._handles = handles
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._lanes: dict[int, _Lane] = {}
        self._rounds: asyncio.Task[None] | None = None
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Begin the rounds: whatever was acknowledged is confirmed, or its owner fenced, within the interval."""
        self._rounds = asyncio.create_task(self._go_round(), name="seekpoint-confirm")

    async def close(self) -> None:
        """End the rounds and the passes under way."""
        lanes = [lane.task for lane in self._lanes.values()]
        tasks = [task for task in (self._rounds, *self._under_way.values(), *lanes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def through(self, handle: Handle, position: int) -> None:
        """Return once the partition is folded below ``position`` for ``handle``.

        The handle may be closed then (fenced, or the log is wrong): the caller looks. Raises ``ConfirmTimeout`` after
        ``confirm_timeout_s``.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while handle.position < position and handle.status is not Status.CLOSED:
                    await self._pass(handle, position)
        except TimeoutError as exc:
            raise ConfirmTimeout(
                "the partition could not be read in time",
                process_id=handle.process_id, partition=handle.partition, offset=position - 1,
            ) from exc  # fmt: skip

    async def to_end(self, handle: Handle) -> None:
        """Fold whatever is in the partition now (new mail, other claims)."""
        high = await self._run(lambda: self._reader.watermarks(handle.partition).high)
        await self.through(handle, high)

    async def _pass(self, handle: Handle, position: int) -> None:
        lane = self._lanes.setdefault(handle.partition, _Lane())
        lane.wanted[handle] = max(position, lane.wanted.get(handle, 0))
        if lane.task is None or lane.task.done():
            lane.moved = asyncio.Event()
            lane.task = asyncio.create_task(self._read(handle.partition, lane), name="seekpoint-confirm-pass")
        await lane.moved.wait()

    async def _read(self, partition: int, lane: _Lane) -> None:
        await asyncio.sleep(0)  # everyone who asks in this tick shares the pass
        wanted, lane.wanted = lane.wanted, {}
        start, stop = min(handle.position for handle in wanted), max(wanted.values())
        readers = {h.key: h for h in self._handles() if h.partition == partition and h.position >= start}
        readers.update({handle.key: handle for handle in wanted})
        try:
            if start < stop:
                await self._absorb(partition, start, stop, readers)
        except TryAgain as exc:
            logger.warning("confirmation waits: %s", exc)
            await asyncio.sleep(_RETRY_S)
        except SeekpointError as exc:  # the log itself is wrong: whoever relies on it stops, loudly
            logger.error("confirmation found: %s", exc)
            for handle in wanted:
                handle.fail(exc)
        finally:
            lane.moved.set()

    async def _absorb(self, partition: int, start: int, stop: int, readers: dict[bytes, Handle]) -> None:
        batches = self._reader.read(partition, start, stop, readers.keys())
        while (batch := await self._run(lambda: _next(batches))) is not None:
            found: dict[bytes, list[Record]] = {key: [] for key in readers}
            for record in batch.records:
                found[record.key or b""].append(record)
            for key, handle in readers.items():
                self._take(handle, found[key], batch.next_offset)

    @staticmethod
    def _take(handle: Handle, records: list[Record], position: int) -> None:
        if handle.position >= position:
            return
        try:
            handle.absorb(records, position)
        except SeekpointError as exc:  # a truncated log, a newer format: this process stops, loudly
            logger.error("process %s stops: %s", handle.process_id, exc)
            handle.fail(exc)

    async def _go_round(self) -> None:
        """Half the interval between rounds: an entry is at most one interval old when its owner knows.

        Each partition has rounds of its own: one that cannot be read keeps no other's owner from being told.
        """
        while True:
            await asyncio.sleep(self._interval_s / 2)
            due: dict[int, dict[Handle, int]] = {}
            for handle in self._handles():
                if handle.unconfirmed is not None:
                    due.setdefault(handle.partition, {})[handle] = handle.unconfirmed + 1
            for partition, wanted in due.items():
                if (under_way := self._under_way.get(partition)) is None or under_way.done():
                    self._under_way[partition] = asyncio.create_task(self._confirm(wanted), name="seekpoint-round")

    async def _confirm(self, wanted: dict[Handle, int]) -> None:
        rounds = [self.through(handle, position) for handle, position in wanted.items()]
        for outcome in await asyncio.gather(*rounds, return_exceptions=True):
            if isinstance(outcome, ConfirmTimeout):
                logger.warning("confirmation waits: %s", outcome)
            elif isinstance(outcome, Exception):
                logger.error("confirmation failed", exc_info=outcome)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def _next(batches: Iterator[Batch]) -> Batch | None:
    return next(batches, None)
