"""The tailer: one reader for each partition of a node. It serves opens, claims, confirmations and mail.

    a thread ── polls ──> the tail ── batches ──> the loop: one PartitionTail a partition ──> listeners, callers

It polls while a caller waits, and pauses otherwise. Where a partition breaks, or stays silent while a caller waits, the
tailer reads it directly: that either leads on or tells what is wrong. Callers wait for the tail's position only, so it
does not matter which of the two moved it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from seekpoint.consumers.recovery.absence_proof import prove_absence
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.producers.tail.partition_tail import Listener, PartitionTail
from seekpoint.producers.tail.tail_follower import Follower
from seekpoint.producers.tail.truncation import TruncationChecks
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleClosed, LogTruncated, Refused, Retryable, SeekpointError
from seekpoint.schemas.log.log_ports import Batch, LogReader, Record
from seekpoint.schemas.log.tail import TailBatch

logger = logging.getLogger("seekpoint.producers")

T = TypeVar("T")

_TICK_S, _QUIET_TICK_S = 0.25, 1.0
"""How often the tails are looked at: while a caller waits for an offset, and otherwise."""
_SILENCE_S = 1.0
"""How long a tail may stand still while a caller waits, before the partition is read directly."""
_RETRY_S = 0.05
_TAKES_ALONE = 3
"""After so many acknowledgements in a row that told all, the node writes alone. Two nodes in turn never come to it."""
_CHECK_S = 1.0
_IDLE_CHECK_S = 5.0
_FORGET_S = 10.0
"""How long a tail without a listener is kept."""


class Tailer:
    """Follows partitions for one node, from one event loop. ``start`` before use, ``close`` after."""

    def __init__(self, reader: LogReader, recoverer: Recoverer, executor: Executor, settings: Settings) -> None:
        self._reader = reader
        self._recoverer = recoverer
        self._executor = executor
        self._tails: dict[int, PartitionTail] = {}
        self._generation = 0
        self._follower = Follower(reader, settings)
        self._settings = settings
        self._truncation = TruncationChecks(reader, self._run)
        self._read_back_s = settings.confirm_interval_s / 2
        self._tasks: set[asyncio.Task[None]] = set()
        self._direct_reads: set[int] = set()
        self._checked_at = 0.0
        self._is_quiet = False
        self._asked = asyncio.Event()
        """Ends a quiet tick: a caller waits for an offset."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def expect_steady(self) -> None:
        """Expect that the followed partitions rarely change. Call it before ``start``."""
        self._follower.is_steady = True

    def start(self) -> None:
        """Start the thread. No partition is followed until its tail is asked for."""
        self._loop = asyncio.get_running_loop()
        self._follower.start(self._loop, self._on_batch)
        self._spawn(self._supervise(), "seekpoint-tailer")

    async def close(self) -> None:
        """Stop. Every caller that waits for a partition, now or later, gets ``HandleClosed``."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._follower.close)
        for tail in self._tails.values():
            tail.fail(_closed())

    @property
    def is_started(self) -> bool:
        """Return True from ``start`` to ``close``."""
        return self._loop is not None and not self._is_closed

    def check_loop(self) -> None:
        """Raise ``Refused`` in another event loop than the one that the node or client was started in."""
        refuse_other_loop(self._loop)

    @property
    def is_idle(self) -> bool:
        """Return True while nothing is polled, because no caller has waited for a while."""
        return self._follower.is_idle

    @property
    def may_lag(self) -> bool:
        """Return True while nothing is polled, unless this node has written alone a moment ago."""
        return self._follower.may_lag

    @property
    def rounds(self) -> int:
        """The number of polls of the thread. The thread hangs if this does not rise while it is not idle."""
        return self._follower.rounds

    # --- the tails of partitions
    def tail(self, partition: int) -> PartitionTail | None:
        """Return the tail of a partition, if it is followed."""
        return self._tails.get(partition)

    def tail_from(self, partition: int, position: int) -> PartitionTail:
        """Return the tail of a partition. Follow the partition from ``position`` on if it is not followed."""
        tail = self._tails.get(partition)
        if tail is None:
            now = self._now()
            tail = self._tails[partition] = PartitionTail(partition, position)
            tail.read_at = now
            self._begin(tail)
        return tail

    def detach(self, listener: Listener, partition: int) -> None:
        """Stop delivering records to ``listener``."""
        tail = self._tails.get(partition)
        if tail is not None:
            tail.detach(listener)

    async def wait_for(self, tail: PartitionTail, position: int) -> None:
        """Return once everything below ``position`` is delivered. Waits without limit while Kafka is silent.

        Raises what is wrong with the log, and ``HandleClosed`` once the tailer is closed.
        """
        if tail.position >= position:
            return
        if self._is_closed:
            raise _closed()
        if tail.error is not None:
            raise tail.error
        if not tail.target:
            tail.moved_at = self._now()
        tail.takes = 0
        self._follower.wake()
        if self._is_quiet:
            self._asked.set()
        if tail.broken:
            self._read_directly(tail)
        await tail.wait_for(position)

    def watch(self, tail: PartitionTail, watchers: int) -> None:
        """Count one more (1) or one less (-1) caller that waits for any next record."""
        tail.watchers += watchers
        self._follower.hold(any(one.watchers for one in self._tails.values()))

    def want_proof(self, tail: PartitionTail) -> None:
        """Prove in the background which processes do not exist: those are then opened without a read."""
        if tail.absence.restart(tail.position, self._now()):
            self._spawn(self._prove(tail), "seekpoint-proof")

    async def _prove(self, tail: PartitionTail) -> None:
        absence = tail.absence
        prove_it = partial(prove_absence, self._recoverer, tail.partition, absence.since)
        try:
            proof = await self._run(prove_it)
        except SeekpointError as exc:
            logger.info("partition %d: no proof of what does not exist: %s", tail.partition, exc)
            return
        if proof is not None:
            absence.add(proof)

    # --- batches
    def _begin(self, tail: PartitionTail) -> None:
        # No two tails of a partition have the same: the thread must not take a new one for the one that it follows.
        self._generation = tail.generation = max(self._generation, tail.generation) + 1
        tail.broken = False
        tail.moved_at = self._now()
        self._follower.begin(tail.partition, tail.position, tail.generation)

    def _on_batch(self, generation: int, batch: TailBatch) -> None:
        tail = self._tails.get(batch.partition)
        if tail is None or tail.generation != generation:
            return
        tail.moved_at = tail.read_at = self._now()
        if batch.broken:
            tail.broken = True
            if tail.target:
                self._read_directly(tail)
        else:
            self._deliver(tail, batch)

    def _deliver(self, tail: PartitionTail, batch: TailBatch) -> None:
        tail.deliver(batch)
        if tail.unverified is not None:
            self._spawn(self._check_log(tail, self._truncation.after_change_of_leader), "seekpoint-leader")

    def take_written(self, records: Sequence[Record]) -> None:
        """Deliver records of this node that are acknowledged, where they follow what was read without a gap.

        A read would return the same. Where a record of another writer lies between, the partition is read as always.
        An acknowledgement does not tell of a log that has lost its end: the newest record is read within
        ``confirm_interval_s``, and when the leader has changed.
        """
        found: dict[int, list[Record]] = {}
        for record in records:
            found.setdefault(record.partition, []).append(record)
        for partition, own in found.items():
            tail = self._tails.get(partition)
            if tail is not None:
                self._take(tail, own)

    def _take(self, tail: PartitionTail, own: list[Record]) -> None:
        if own[0].offset < tail.position:  # the thread was faster
            own, count = [one for one in own if one.offset >= tail.position], len(own)
            tail.read_unanswered = max(0, tail.read_unanswered - (count - len(own)))
        if not own or tail.broken or own[-1].offset - tail.position >= len(own):
            return
        tail.moved_at = tail.read_at = self._now()
        tail.take(own, tail.moved_at)
        self._follower.passed(tail.partition, tail.position)
        if tail.takes >= _TAKES_ALONE and not self._is_awaited():
            self._follower.rest()

    # --- direct reads, where the tail breaks or stays silent
    def _read_directly(self, tail: PartitionTail) -> None:
        if tail.partition not in self._direct_reads:
            self._direct_reads.add(tail.partition)
            self._spawn(self._read_to_target(tail), "seekpoint-direct")

    async def _read_to_target(self, tail: PartitionTail) -> None:
        """Read as far as callers wait, by the reader, which tells what is wrong; then follow again."""
        tail.generation += 1  # batches that are still on their way are ignored
        try:
            while tail.target > tail.position:
                try:
                    await self._read(tail)
                except Retryable as exc:
                    logger.warning("a partition cannot be read: %s", exc)
                    await asyncio.sleep(_RETRY_S)
                except SeekpointError as exc:  # the log itself is wrong: every process that relies on it stops, loudly
                    logger.error("following found: %s", exc)
                    if not _can_continue(tail, exc):
                        self.stop_following(tail, exc)
                    tail.absence.forget()
                    tail.fail(exc)
        finally:
            self._direct_reads.discard(tail.partition)
        if self._tails.get(tail.partition) is tail:
            self._begin(tail)

    def _check_broken(self, tail: PartitionTail) -> None:
        """Read a broken partition to its end: a listener that waits for no offset must get the error, too."""
        self._direct_reads.add(tail.partition)
        self._spawn(self._to_end(tail), "seekpoint-to-end")

    async def _to_end(self, tail: PartitionTail) -> None:
        try:
            high = (await self._run(partial(self._reader.watermarks, tail.partition))).high
        except Retryable as exc:
            logger.warning("a partition cannot be read: %s", exc)
            return  # the tail is still broken: the next round tries again
        except SeekpointError as exc:
            self.stop_following(tail, exc)
            return
        finally:
            self._direct_reads.discard(tail.partition)
        if high < tail.position:
            self.stop_following(tail, _lost_end(tail, tail.position, high))
        elif high > tail.position:
            with suppress(SeekpointError):  # the listeners get the error
                await self.wait_for(tail, high)
        elif self._tails.get(tail.partition) is tail:
            self._begin(tail)

    async def check_end(self, tail: PartitionTail) -> None:
        """Stop following a partition if its log ends before what was read of it. Raises why that cannot be told."""
        position = tail.position
        high = (await self._run(partial(self._reader.watermarks, tail.partition))).high
        if high < position:
            self.stop_following(tail, _lost_end(tail, position, high))

    async def _read(self, tail: PartitionTail) -> None:
        batches = self._reader.read(tail.partition, tail.position, tail.target)
        while (batch := await self._run(lambda: next(batches, None))) is not None:
            self._deliver(tail, _tail_batch(tail.partition, batch))

    async def _check_log(self, tail: PartitionTail, check: Callable[[PartitionTail], Awaitable[Any]]) -> None:
        error = await check(tail)
        if error is not None:
            logger.error("following found: %s", error)
            self.stop_following(tail, error)

    def stop_following(self, tail: PartitionTail, error: SeekpointError) -> None:
        """Stop following a partition whose log cannot be read on, and fail its listeners with ``error``.

        The next open follows the partition again, by a new tail.
        """
        if self._tails.get(tail.partition) is tail:
            del self._tails[tail.partition]
            self._follower.end(tail.partition)
        tail.error = error
        self._fail_all(tail, error)

    @staticmethod
    def _fail_all(tail: PartitionTail, error: SeekpointError) -> None:
        tail.absence.forget()
        tail.fail(error)
        for listener in tail.all_listeners:
            listener.fail(error)
        if tail.observer is not None:
            tail.observer.fail(error)

    # --- supervision
    async def _supervise(self) -> None:
        while True:
            await self._tick()
            now = self._now()
            for tail in list(self._tails.values()):
                self._inspect(tail, now)
            if now - self._checked_at > self._check_interval_s():
                self._checked_at = now
                self._spawn(self._check(), "seekpoint-check")

    async def _tick(self) -> None:
        """Wait until the next look: a second while nobody waits for an offset, as each look costs an idle node."""
        self._asked.clear()
        self._is_quiet = not self._is_awaited()
        with suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_TICK_S if self._is_quiet else _TICK_S):
                await self._asked.wait()
        self._is_quiet = False

    def _is_awaited(self) -> bool:
        return any(tail.target for tail in self._tails.values())

    def _check_interval_s(self) -> float:
        """Check often while a caller waits for an offset, and now and then for the others."""
        if self._is_awaited():
            return _CHECK_S
        return _IDLE_CHECK_S if self._tails else math.inf

    def _inspect(self, tail: PartitionTail, now: float) -> None:
        if tail.target > tail.position and now - tail.moved_at > _SILENCE_S:
            self._read_directly(tail)
        elif tail.broken and tail.watchers and tail.partition not in self._direct_reads:
            self._check_broken(tail)
        elif tail.target:
            self._follower.wake()
        if tail.taken is not None and now - tail.taken.since > self._read_back_s and not tail.is_checking:
            self._spawn(self._check_log(tail, self._truncation.of_taken), "seekpoint-read-back")
        if not (tail.listeners or tail.followers or tail.target or tail.observer) and now - tail.moved_at > _FORGET_S:
            del self._tails[tail.partition]
            self._follower.end(tail.partition)

    async def _check(self) -> None:
        """Fail all listeners if a topic was deleted or made again: a new topic is another log."""
        try:
            await self._run(self._reader.check)
        except Retryable as exc:
            logger.info("the journal's topics cannot be looked at: %s", exc)
        except SeekpointError as exc:
            for tail in list(self._tails.values()):
                self._fail_all(tail, exc)

    # --- running
    def _now(self) -> float:
        if self._loop is None:
            raise not_started()
        return self._loop.time()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Forget a task, and report its error. Threads take no more work while the interpreter ends: that is none."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not (isinstance(error, RuntimeError) and "shutdown" in str(error)):
            logger.error("%s failed: %s", task.get_name(), traceback_of(error, self._settings))

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def not_started() -> Refused:
    """Return the error for a call on a node or client that was not started."""
    return Refused("the node or client was not started", hint="use it inside async with, or await start() first")


def refuse_other_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """Raise ``Refused`` unless the caller runs in ``loop``; None: in any."""
    if loop is not None and loop is not asyncio._get_running_loop():
        raise Refused(
            "the node or client was started in another event loop",
            hint="start one in this loop too, or share a SyncNode: await node.call_async(lambda one: one.recover(...))",
        )


def _closed() -> HandleClosed:
    return HandleClosed("the node was closed", hint="use a node that is open")


def _lost_end(tail: PartitionTail, position: int, high: int) -> LogTruncated:
    message = "the log ends before what was read of it"
    return LogTruncated(message, partition=tail.partition, offset=position - 1, high=high)


def _can_continue(tail: PartitionTail, error: SeekpointError) -> bool:
    """Return whether the tail may stay: the log only ends before the offset that one of the callers waits for."""
    return isinstance(error, LogTruncated) and error.high is not None and error.high >= tail.position


def _tail_batch(partition: int, batch: Batch) -> TailBatch:
    records = batch.records
    keys = [record.key for record in records]
    return TailBatch(partition, keys, records.__getitem__, batch.next_offset, batch.first, batch.last)
