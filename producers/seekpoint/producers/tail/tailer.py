"""The tailer: one reader a node and partition, which opens, claims, confirmations and mail ride on.

    a thread ── polls ──> the tail ── stretches ──> the loop: a lane a partition ──> handles, opens, whoever waits

It follows a partition while somebody waits there, and rests otherwise: then ``ask`` says when to look again. Where the
tail breaks, or stays silent while somebody waits, the partition is read directly: that either leads on or says what is
wrong. Nobody waits for anything but the lane's position, so it does not matter who moved it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from seekpoint.consumers.recovery.absence_proof import prove_absence
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.producers.tail.partition_tail import Listener, PartitionTail
from seekpoint.producers.tail.tail_follower import Follower
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleClosed, LogTruncated, Retryable, SeekpointError
from seekpoint.schemas.log.log_ports import Batch, LogReader
from seekpoint.schemas.log.tail import TailBatch

__all__ = ["Tailer"]

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_TICK_S = 0.25
_SILENCE_S = 1.0
"""So long a lane may stand while somebody waits, until the partition is read directly."""
_RETRY_S = 0.05
_CHECK_S = 1.0
_IDLE_CHECK_S = 5.0
_FORGET_S = 10.0
"""A lane that nobody listens to is given up after so long."""


class Tailer:
    """Follows partitions for one node, from one event loop. ``start`` before use, ``close`` after."""

    def __init__(self, reader: LogReader, recoverer: Recoverer, executor: Executor, settings: Settings) -> None:
        self._reader = reader
        self._recoverer = recoverer
        self._executor = executor
        self._lanes: dict[int, PartitionTail] = {}
        self._follower = Follower(reader, settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._directly: set[int] = set()
        self._checked_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def start(self) -> None:
        """Begin to work; nothing is followed until a lane is asked for."""
        self._loop = asyncio.get_running_loop()
        self._follower.start(self._loop, self._take)
        self._spawn(self._look_after(), "seekpoint-tailer")

    async def close(self) -> None:
        """End all of it. Everybody who waits for a partition, now or later, gets ``HandleClosed``."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._follower.close)
        for lane in self._lanes.values():
            lane.fail(_closed())

    @property
    def rests(self) -> bool:
        """Whether nothing is read just now: nobody has waited for a while."""
        return self._follower.rests

    # --- lanes
    def lane(self, partition: int) -> PartitionTail | None:
        """The lane of a partition, if it is followed."""
        return self._lanes.get(partition)

    def lane_from(self, partition: int, position: int) -> PartitionTail:
        """The lane of a partition; a new one is followed from ``position`` on."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = PartitionTail(partition, position)
            lane.read_at = self._now()
            self._begin(lane)
        return lane

    def detach(self, listener: Listener, partition: int) -> None:
        """``listener`` hears no more."""
        lane = self._lanes.get(partition)
        if lane is not None:
            lane.detach(listener)

    async def through(self, lane: PartitionTail, position: int) -> None:
        """Return once everything below ``position`` was handed out. Raises what is wrong with the log, ``HandleClosed``
        once the tailer is closed; waits for ever while Kafka is silent."""
        if lane.position >= position:
            return
        if self._is_closed:
            raise _closed()
        if lane.given_up is not None:
            raise lane.given_up
        if not lane.target:
            lane.moved_at = self._now()
        self._follower.want()
        if lane.broken:
            self._read_directly(lane)
        await lane.through(position)

    def watch(self, lane: PartitionTail, watchers: int) -> None:
        """One more (1), or one less (-1), waits for whatever may come."""
        lane.watchers += watchers
        if lane.watchers:
            self._follower.want()

    def want_proof(self, lane: PartitionTail) -> None:
        """Find out, beside the work, which processes there are in it: new ones are then opened without a read."""
        if lane.absence.restart(lane.position, self._now()):
            self._spawn(self._prove(lane), "seekpoint-proof")

    async def _prove(self, lane: PartitionTail) -> None:
        absence = lane.absence
        prove_it = partial(prove_absence, self._recoverer, lane.partition, absence.since)
        try:
            proof = await self._run(prove_it)
        except SeekpointError as exc:
            logger.info("partition %d: no proof of what does not exist: %s", lane.partition, exc)
            return
        if proof is not None:
            absence.add(proof)

    # --- what comes
    def _begin(self, lane: PartitionTail) -> None:
        lane.generation += 1
        lane.broken = False
        lane.moved_at = self._now()
        self._follower.begin(lane.partition, lane.position, lane.generation)

    def _take(self, generation: int, stretch: TailBatch) -> None:
        lane = self._lanes.get(stretch.partition)
        if lane is None or lane.generation != generation:
            return
        lane.moved_at = lane.read_at = self._now()
        if stretch.broken:
            lane.broken = True
            if lane.target:
                self._read_directly(lane)
        else:
            lane.take(stretch)
            if lane.doubtful is not None:
                self._spawn(self._check_leader(lane), "seekpoint-leader")

    # --- when the tail does not lead on
    def _read_directly(self, lane: PartitionTail) -> None:
        if lane.partition not in self._directly:
            self._directly.add(lane.partition)
            self._spawn(self._direct(lane), "seekpoint-direct")

    async def _direct(self, lane: PartitionTail) -> None:
        """Read as far as somebody waits, by the reader that says what is wrong; then follow again."""
        lane.generation += 1  # what the tail may still bring is not looked at
        try:
            while lane.target > lane.position:
                try:
                    await self._read(lane)
                except Retryable as exc:
                    logger.warning("a partition cannot be read: %s", exc)
                    await asyncio.sleep(_RETRY_S)
                except SeekpointError as exc:  # the log itself is wrong: whoever relies on it stops, loudly
                    logger.error("following found: %s", exc)
                    if not _leads_on(lane, exc):
                        self.give_up(lane, exc)
                    lane.absence.forget()
                    lane.fail(exc)
        finally:
            self._directly.discard(lane.partition)
        if self._lanes.get(lane.partition) is lane:
            self._begin(lane)

    def _find_out(self, lane: PartitionTail) -> None:
        """Read a broken lane to the partition's end: who waits for no offset has to hear what is wrong, too."""
        self._directly.add(lane.partition)
        self._spawn(self._to_end(lane), "seekpoint-to-end")

    async def _to_end(self, lane: PartitionTail) -> None:
        try:
            high = (await self._run(partial(self._reader.watermarks, lane.partition))).high
        except Retryable as exc:
            logger.warning("a partition cannot be read: %s", exc)
            return  # it is still broken: the next look asks again
        except SeekpointError as exc:
            self.give_up(lane, exc)
            return
        finally:
            self._directly.discard(lane.partition)
        if high < lane.position:
            self.give_up(
                lane,
                LogTruncated(
                    "the log ends before what was read of it",
                    partition=lane.partition, offset=lane.position - 1, high=high,
                ),
            )  # fmt: skip
        elif high > lane.position:
            with suppress(SeekpointError):  # everybody who listens there is told
                await self.through(lane, high)
        elif self._lanes.get(lane.partition) is lane:
            self._begin(lane)

    async def _read(self, lane: PartitionTail) -> None:
        batches = self._reader.read(lane.partition, lane.position, lane.target)
        while (batch := await self._run(lambda: next(batches, None))) is not None:
            lane.take(_stretch(lane.partition, batch))

    async def _check_leader(self, lane: PartitionTail) -> None:
        """Whether the new leader has what the former one had."""
        last, lane.doubtful = lane.doubtful, None
        if last is None:
            return
        try:
            epoch = await self._run(lambda: self._reader.leader_epoch_at(lane.partition, last.offset))
        except SeekpointError as exc:
            logger.warning("a new leader cannot be asked: %s", exc)
            return
        if epoch not in (-1, last.leader_epoch):
            self._fail_all(
                lane,
                LogTruncated(
                    "another leader epoch: the log was truncated",
                    partition=lane.partition, offset=last.offset, expected=last.leader_epoch, leader_epoch=epoch,
                ),
            )  # fmt: skip

    def give_up(self, lane: PartitionTail, error: SeekpointError) -> None:
        """The log cannot be followed from where the lane stands: all that listens there is told. The next open begins
        another lane."""
        if self._lanes.get(lane.partition) is lane:
            del self._lanes[lane.partition]
            self._follower.end(lane.partition)
        lane.given_up = error
        self._fail_all(lane, error)

    @staticmethod
    def _fail_all(lane: PartitionTail, error: SeekpointError) -> None:
        lane.absence.forget()
        lane.fail(error)
        for listener in list(lane.listeners.values()):
            listener.fail(error)

    # --- looking after
    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._now()
            for lane in list(self._lanes.values()):
                self._look_at(lane, now)
            if now - self._checked_at > self._check_interval_s():
                self._checked_at = now
                self._spawn(self._check(), "seekpoint-check")

    def _check_interval_s(self) -> float:
        """Often while somebody waits; an owner that only appends hears of topics that are gone, too."""
        if any(lane.target or lane.watchers for lane in self._lanes.values()):
            return _CHECK_S
        return _IDLE_CHECK_S if self._lanes else math.inf

    def _look_at(self, lane: PartitionTail, now: float) -> None:
        if lane.target > lane.position and now - lane.moved_at > _SILENCE_S:
            self._read_directly(lane)
        elif lane.broken and lane.watchers and lane.partition not in self._directly:
            self._find_out(lane)
        elif lane.watchers or lane.target:
            self._follower.want()
        if not lane.listeners and not lane.target and now - lane.moved_at > _FORGET_S:
            del self._lanes[lane.partition]
            self._follower.end(lane.partition)

    async def _check(self) -> None:
        """A topic that is re-created under us is another log: whatever was confirmed there was not."""
        try:
            await self._run(self._reader.check)
        except Retryable as exc:
            logger.info("the journal's topics cannot be looked at: %s", exc)
        except SeekpointError as exc:
            for lane in list(self._lanes.values()):
                self._fail_all(lane, exc)

    # --- how
    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def _closed() -> HandleClosed:
    return HandleClosed("the node was closed", hint="use a node that is open")


def _leads_on(lane: PartitionTail, error: SeekpointError) -> bool:
    """Whether the lane may stay: the log only ends before what one of those who wait was told of."""
    return isinstance(error, LogTruncated) and error.facts.get("high", -1) >= lane.position


def _stretch(partition: int, batch: Batch) -> TailBatch:
    records = batch.records
    return TailBatch(partition, [record.key for record in records], records.__getitem__, batch.next_offset)
