"""Recovery for asyncio: the state of any process, now or at a point in its past, from the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.threads import Threads
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.folds import import_folds
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recovery_report import LastCheckpoint, Recovered
    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.consumers.recovery.verification import Verification
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.consumers.view.view_store import ViewBrowser, ViewStore
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.log.memory_log import MemoryLog

T = TypeVar("T")

_FOLLOW_INTERVAL_S = 0.1
_ENDED: Any = object()


class Recovery:
    """Recovers states and changes nothing in the journal. Use it directly, with ``async with``, or ``await`` it first.

    Blocking work runs in its own threads, at most ``recover_concurrency_max`` at once, so the event loop stays free.
    ``blocking`` is the same recovery without asyncio. A poison record becomes a dead letter, once. If that cannot be
    written, the report says so. All calls raise ``JournalUnavailable``, ``JournalMismatch``, ``JournalGap`` (the log's
    beginning was trimmed), ``LogTruncated``, ``NewerFormat`` and ``TooManyDeadLetters``.

    A recovery uses the quickest tier that can be used: the view, a checkpoint, or the whole log. If one cannot be used,
    the report and the logger ``seekpoint.consumers`` say why.

    >>> from seekpoint import MemoryLog
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
        self._own_view: ViewBrowser | None = None
        self._pool = Threads(self.settings.recover_concurrency_max, thread_name_prefix="seekpoint-recovery")

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Recovery:
        """Return a recovery of the journal, with ``Settings.load()`` by default. Connects when first used."""
        from seekpoint.consumers.journal_log import journal_log

        settings = settings or Settings.load()
        recovery = cls.over(journal_log(settings, must_exist=True), settings)
        recovery._owns_log = True
        return recovery

    @classmethod
    def over(cls, reader: KafkaReader | SqliteLog, settings: Settings, *, is_starting: bool = False) -> Recovery:
        """Return a recovery on a reader that the caller closes, with its checkpoints and, if Redis is set, the view.

        ``is_starting``: do not load the Redis client for a recovery that has little to read.
        """
        import_folds(settings.folds)
        recovery = cls(reader, settings, checkpoints=reader.checkpoints())
        finder = recovery.blocking.base_finder
        finder.is_starting = is_starting
        finder.open_view = None if not settings.has_view else recovery._open_view
        return recovery

    def _open_view(self) -> ViewBrowser:
        from seekpoint.consumers.journal_log import journal_view  # a node that starts does without

        self._own_view = journal_view(self.settings, self._log)
        return self._own_view

    @classmethod
    def in_memory(
        cls,
        log: MemoryLog,
        settings: Settings | None = None,
        *,
        view: ViewStore | None = None,
        checkpoints: CheckpointReader | None = None,
    ) -> Recovery:
        """Return a recovery on a log in memory, with a ``MemoryView`` and ``MemoryCheckpoints`` if given."""
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
        """Return the state of a process, and a report of what the recovery cost.

        Give at most one point in the past: ``at_seq``, right after that entry was applied; ``at_offset``, as of that
        offset of its partition, inclusive; ``at_time`` (an aware datetime, or seconds since 1970), before the first
        entry that is not older. ``tier`` forces a tier.

        If a transaction of another producer hides the end of the partition, the call waits ``transaction_wait_s``. If
        that is not enough, the report's ``hidden`` and a note say that the state may be an old one; with
        ``must_be_current`` the call raises ``TransactionOpen`` instead.

        Raises ``UnknownProcess`` if there is none (with ``missing_ok`` it returns the state of a new one),
        ``UnknownPoint``, ``TierUnavailable`` and ``InvalidName``.
        """
        named_process_key(process_id)
        recover = partial(self.blocking.recover, missing_ok=missing_ok, must_be_current=must_be_current)
        point = Point(seq=at_seq, offset=at_offset, time=at_time)
        return await self.in_thread(lambda: recover(process_id, tier=tier, point=point))

    async def recover_many(
        self, process_ids: Iterable[str] | None = None, *, must_be_current: bool = False
    ) -> dict[str, Recovered]:
        """Return the states of these processes (None: of all), with one scan a partition.

        An unknown process is no error here: its ``known`` is False, and its state is that of a new process. The reports
        of one partition count the same scanned entries. ``must_be_current`` works as in ``recover``.
        """
        if process_ids is None:
            partitions = await self.in_thread(lambda: self._log.partitions)
            groups: dict[int, list[str] | None] = dict.fromkeys(range(partitions))
        else:
            ids = list(process_ids)
            for process_id in ids:
                named_process_key(process_id)
            groups = dict(await self.in_thread(lambda: self.blocking.by_partition(ids)))
        recover = partial(self.blocking.recover_partition, must_be_current=must_be_current)
        found = await asyncio.gather(*(self.in_thread(partial(recover, at, group)) for at, group in groups.items()))
        merged = {process_id: one for part in found for process_id, one in part.items()}
        return merged if process_ids is None else {process_id: merged[process_id] for process_id in ids}

    async def last_checkpoint(self, process_id: str) -> LastCheckpoint | None:
        """Return where the newest checkpoint of a process is and whether it can be used; None if it has none."""
        named_process_key(process_id)
        return await self.in_thread(lambda: self.blocking.last_checkpoint(process_id))

    async def processes(self) -> dict[str, Recovered]:
        """Return every process of the journal, by id. Reads the whole log."""
        return dict(sorted((await self.recover_many()).items()))

    async def verify(self, process_id: str) -> Verification:
        """Recover the process by every tier and compare the states. Raises as ``recover`` does."""
        from seekpoint.consumers.recovery.verification import verify

        named_process_key(process_id)
        return await self.in_thread(lambda: verify(self.blocking, process_id))

    async def verify_all(self) -> list[Verification]:
        """Verify every process of the journal, with one read of each partition."""
        from seekpoint.consumers.recovery.verification import verify_all

        return await self.in_thread(lambda: list(verify_all(self.blocking)))

    async def entries(
        self,
        process_id: str,
        *,
        from_seq: int | None = None,
        kinds: Collection[str] | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order, those that were not applied included.

        Starts with the first owner's entry of at least ``from_seq``. Yields only ``kinds`` (a custom entry's own kind
        counts too), and at most ``limit``. ``follow`` goes on for ever with what is appended; without it a missing
        process raises ``UnknownProcess``.
        """
        from seekpoint.consumers.recovery.process_history import history

        named_process_key(process_id)
        batches = history(self.blocking, process_id, from_seq=from_seq, kinds=kinds, limit=limit, follow=follow)
        async with contextlib.aclosing(self.in_threads(batches)) as read:
            async for batch in read:
                for logged in batch:
                    yield logged
                if not batch:
                    await asyncio.sleep(_FOLLOW_INTERVAL_S)

    async def in_threads(self, blocking: Generator[T, None, None]) -> AsyncGenerator[T, None]:
        """Yield what a generator yields that blocks. It runs in the recovery's threads."""
        try:
            while (made := await self.in_thread(lambda: next(blocking, _ENDED))) is not _ENDED:
                yield made
        finally:
            with contextlib.suppress(ValueError):  # a cancelled read still runs in its thread and ends there
                blocking.close()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, which blocks. It runs in the recovery's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Close threads and connections. May block for a moment; idempotent."""
        if self._owns_log:
            self._log.close()
        if self._own_view is not None:
            self._own_view.close()
        self._pool.close()

    async def __aenter__(self) -> Recovery:
        return await self._connected()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def __await__(self) -> Generator[Any, None, Recovery]:
        return self._connected().__await__()

    async def _connected(self) -> Recovery:
        """Check that the journal exists and fits the settings."""
        try:
            await self.in_thread(lambda: self._log.partitions)
        except BaseException:
            await asyncio.to_thread(self.close)
            raise
        return self
