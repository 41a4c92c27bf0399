"""Recovery: the state of any process, now or at a point in its past, from the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.process_history import Logged, history
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import LastCheckpoint, Recovered
from seekpoint.consumers.recovery.threads import Threads
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.recovery.verification import Verification, verify, verify_all
from seekpoint.consumers.view.view_store import ViewStore
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.folds import import_folds
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.view.redis_view import RedisView
    from seekpoint.schemas.log.memory_log import MemoryLog

__all__ = ["Recovery"]

T = TypeVar("T")

_FOLLOW_INTERVAL_S = 0.1


class Recovery:
    """Finds states; changes nothing in the journal. Use it directly, or ``async with`` it, or ``await`` it first.

    Blocking work runs in threads of its own, at most ``recover_concurrency_max`` at once: the event loop stays free.
    ``blocking`` is the same without asyncio. Poison that is met becomes a dead letter, once; where they cannot be
    written the report says so. All calls raise ``JournalUnavailable``, ``JournalMismatch``, ``JournalGap`` (the log's
    beginning was trimmed), ``LogTruncated``, ``NewerFormat`` and ``TooManyDeadLetters``.

    The quickest tier is taken that can be: the view, a checkpoint, the whole log. Where one had to be passed over the
    report says why, and so does the log (logger ``seekpoint.consumers``).

    >>> from seekpoint.schemas import MemoryLog
    >>> recovery = Recovery.in_memory(MemoryLog())
    >>> asyncio.run(recovery.recover("case-17", missing_ok=True)).state.seq
    0
    """

    def __init__(
        self,
        log: LogReader,
        settings: Settings | None = None,
        *,
        view: ViewStore | None = None,
        checkpoints: CheckpointReader | None = None,
    ) -> None:
        self.settings = settings or Settings(redis_url=None)
        letters = DeadLetters(log, self.settings)
        wait_s = self.settings.transaction_wait_s
        self.blocking = Recoverer(log, letters, view=view, checkpoints=checkpoints, transaction_wait_s=wait_s)
        self._log = log
        self._owns_log = False
        self._own_view: RedisView | None = None
        self._pool = Threads(self.settings.recover_concurrency_max, thread_name_prefix="seekpoint-recovery")

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Recovery:
        """A recovery on Kafka; ``settings`` as of ``Settings.load()`` unless given. Connects when first used."""
        from seekpoint.consumers.kafka.kafka_reader import (
            KafkaReader,  # 65 ms of import that a log in memory does not need
        )

        settings = settings or Settings.load()
        recovery = cls.over(KafkaReader(settings), settings)
        recovery._owns_log = True
        return recovery

    @classmethod
    def over(cls, reader: KafkaReader, settings: Settings, *, is_starting: bool = False) -> Recovery:
        """A recovery on a reader that somebody else closes, with its checkpoints, and the view if there is a Redis.

        ``is_starting``: in its first second it may leave the view alone where there is little to read.
        """
        view = None
        if settings.redis_url is not None:
            from seekpoint.consumers.view.redis_view import RedisView  # as above

            view = RedisView(settings)
        import_folds(settings.folds)
        recovery = cls(reader, settings, view=view, checkpoints=reader.checkpoints())
        recovery._own_view = view
        recovery.blocking.bases.is_starting = is_starting
        return recovery

    @classmethod
    def in_memory(
        cls,
        log: MemoryLog,
        settings: Settings | None = None,
        *,
        view: ViewStore | None = None,
        checkpoints: CheckpointReader | None = None,
    ) -> Recovery:
        """A recovery on a log in memory, and on what is kept beside it: ``MemoryView``, ``MemoryCheckpoints``."""
        return cls(log, settings, view=view, checkpoints=checkpoints)

    async def recover(
        self,
        process_id: str,
        *,
        tier: Tier | None = None,
        at_seq: int | None = None,
        at_offset: int | None = None,
        at_time: datetime | float | None = None,
        missing_ok: bool = False,
        must_be_current: bool = False,
    ) -> Recovered:
        """The state of a process, and what finding it cost.

        At most one point in the past: ``at_seq``, right after that entry was applied; ``at_offset``, as of that offset
        of its partition, inclusive; ``at_time`` (an aware datetime, or seconds since 1970), before the first entry
        that is not older. ``tier`` forces a way.

        Where a foreign transaction hides the end of the partition it waits ``transaction_wait_s``; if that was not
        enough the report's ``hidden`` and a note say that the state may be an old one, and with ``must_be_current``
        ``TransactionOpen`` is raised instead.

        Raises ``UnknownProcess`` if there is none (``missing_ok``: the state of a new one), ``UnknownPoint``,
        ``TierUnavailable``, ``InvalidName``.
        """
        named_process_key(process_id)
        recover = partial(self.blocking.recover, missing_ok=missing_ok, must_be_current=must_be_current)
        point = Point(seq=at_seq, offset=at_offset, time=at_time)
        return await self._run(lambda: recover(process_id, tier=tier, point=point))

    async def recover_many(
        self, process_ids: Iterable[str] | None = None, *, must_be_current: bool = False
    ) -> dict[str, Recovered]:
        """The states of these processes (None: of all there are), with one scan a partition.

        An unknown one is no error here: its ``known`` is False and its state a new one's. The reports' scanned entries
        are those of the scan they share. ``must_be_current`` as with ``recover``.
        """
        if process_ids is None:
            partitions = await self._run(lambda: self._log.partitions)
            homes: dict[int, list[str] | None] = dict.fromkeys(range(partitions))
        else:
            wanted = list(process_ids)
            for process_id in wanted:
                named_process_key(process_id)
            homes = dict(await self._run(lambda: self.blocking.by_partition(wanted)))
        recover = partial(self.blocking.recover_partition, must_be_current=must_be_current)
        found = await asyncio.gather(*(self._run(partial(recover, at, ids)) for at, ids in homes.items()))
        merged = {process_id: one for part in found for process_id, one in part.items()}
        return merged if process_ids is None else {process_id: merged[process_id] for process_id in wanted}

    async def last_checkpoint(self, process_id: str) -> LastCheckpoint | None:
        """The newest checkpoint of a process: where it is, and whether it can be used. None if it has none."""
        named_process_key(process_id)
        return await self._run(lambda: self.blocking.last_checkpoint(process_id))

    async def processes(self) -> dict[str, Recovered]:
        """Every process in the journal, by id. Reads the whole log."""
        return dict(sorted((await self.recover_many()).items()))

    async def verify(self, process_id: str) -> Verification:
        """Find the process in every way there is, and compare. Raises as ``recover`` does."""
        named_process_key(process_id)
        return await self._run(lambda: verify(self.blocking, process_id))

    async def verify_all(self) -> list[Verification]:
        """The same of every process in the journal, with one read of each partition."""
        return await self._run(lambda: list(verify_all(self.blocking)))

    async def entries(
        self,
        process_id: str,
        *,
        from_seq: int | None = None,
        kinds: Collection[str] | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[Logged]:
        """The entries of a process in the order of the log, those that were not applied included.

        Starts with the first owner's entry of at least ``from_seq``; only ``kinds`` (a custom entry's own kind too); at
        most ``limit``. ``follow`` goes on for ever with what is appended. Raises ``UnknownProcess`` if there is none,
        unless it follows.
        """
        named_process_key(process_id)
        batches = history(self.blocking, process_id, from_seq=from_seq, kinds=kinds, limit=limit, follow=follow)
        try:
            while (batch := await self._run(lambda: next(batches, None))) is not None:
                for logged in batch:
                    yield logged
                if not batch:
                    await asyncio.sleep(_FOLLOW_INTERVAL_S)
        finally:
            with contextlib.suppress(ValueError):  # a cancelled read still runs in its thread, and ends by itself
                batches.close()

    def close(self) -> None:
        """Give up threads and connections. May block for a moment; idempotent."""
        if self._owns_log:
            self._log.close()
        if self._own_view is not None:
            self._own_view.close()
        self._pool.close()

    async def __aenter__(self) -> Recovery:
        return await self._connected()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __await__(self) -> Generator[Any, None, Recovery]:
        return self._connected().__await__()

    async def _connected(self) -> Recovery:
        """The journal is there and is ours."""
        try:
            await self._run(lambda: self._log.partitions)
        except BaseException:
            await asyncio.to_thread(self.close)
            raise
        return self

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
