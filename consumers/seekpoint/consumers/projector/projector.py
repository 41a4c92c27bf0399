"""The projector keeps view and checkpoints up to date with the journal."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import PartitionHeads, read_heads
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, JournalUnavailable, SeekpointError
from seekpoint.schemas.folds import import_folds

if TYPE_CHECKING:
    from seekpoint.consumers.projector.projector_loop import Lag, ProjectorLoop

_CHECK_INTERVAL_S = 0.2


class Projector:
    """Folds the journal into the view, in Redis or in the file of an embedded log, and writes checkpoints.

    Any number of projectors share the partitions.

    It works in threads of its own. Raises ``JournalUnavailable``, ``JournalMismatch`` and what stops a partition:
    ``NewerFormat``, ``JournalGap``, ``LogTruncated``, ``TooManyDeadLetters``. The other partitions go on; when all of a
    projector's partitions are stopped, ``run`` raises the first error.
    """

    def __init__(self, settings: Settings, *, cadence: Cadence | None = None) -> None:
        if settings.redis_url is None and settings.sqlite_path is None:
            raise InvalidSetting("a projector needs a Redis to keep the view in", setting="redis_url")
        import_folds(settings.folds)
        self.settings = settings
        self._cadence = cadence or Cadence.of(settings)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._users = 0
        self._ended: Future[None] = Future()
        self._goals: list[_CatchUp] = []
        self._lag: Mapping[int, Lag] = {}
        self._save_failure: SeekpointError | None = None
        self.is_lost = False
        """Whether nobody projects although the log answers; it ends with ``GroupLost`` if that stays so."""

    @classmethod
    def connect(cls, settings: Settings | None = None, *, cadence: Cadence | None = None) -> Projector:
        """Return a projector with ``settings``, by default ``Settings.load()``. It connects when it runs."""
        return cls(settings or Settings.load(), cadence=cadence)

    async def run(self) -> None:
        """Project until ``stop`` is called, the task is cancelled, or all partitions are stopped."""
        async with self._running() as ended:
            await asyncio.shield(asyncio.wrap_future(ended))

    async def catch_up(self, *, timeout_s: float = 300.0) -> None:
        """Bring view and checkpoints to the journal's present end: afterwards a recovery can use every tier.

        It works with and without ``run``. It also waits for partitions of other projectors, which save at their own
        cadence. Raises ``JournalUnavailable`` after ``timeout_s``, and what stops a partition.
        """
        goal = _CatchUp()
        self._goals.append(goal)
        async with self._running():
            try:
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(goal.reached)), timeout_s)
            except TimeoutError as exc:
                behind, why = sorted(goal.behind), self._save_failure
                reason, hint = (None, JournalUnavailable.hint) if why is None else (why.message, why.hint)
                raise JournalUnavailable(
                    "not caught up in time", timeout_s=timeout_s, partitions=behind, reason=reason, hint=hint
                ) from exc
            finally:
                with contextlib.suppress(ValueError):
                    self._goals.remove(goal)

    def stop(self) -> None:
        """Make ``run`` save, leave the group and return. Callable from any thread; idempotent."""
        self._stop.set()

    def lag(self) -> Mapping[int, Lag]:
        """Return how far the views of this projector's partitions are behind, as of its last turn."""
        return self._lag

    async def __aenter__(self) -> Projector:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._join()

    # --- the thread ---------------------------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[Future[None]]:
        """Run the loop inside the block, and yield its outcome. The first user starts it, the last user ends it."""
        self._users += 1
        if self._thread is None:
            self._stop.clear()
            self._ended = Future()
            self._thread = threading.Thread(target=self._work, name="seekpoint-projector", daemon=True)
            self._thread.start()
        try:
            yield self._ended
        finally:
            self._users -= 1
            if not self._users:
                await self._join()

    async def _join(self) -> None:
        self.stop()
        thread = self._thread
        if thread is not None:
            await asyncio.to_thread(thread.join)
            self._thread = None

    def _work(self) -> None:
        try:
            self._loop()
        except BaseException as exc:
            for goal in [*self._goals]:
                goal.fail(exc)
            self._ended.set_exception(exc)
        else:
            for goal in [*self._goals]:
                goal.fail(JournalUnavailable("the projector was stopped before it had caught up"))
            self._ended.set_result(None)

    def _loop(self) -> None:
        from seekpoint.consumers.projector.projector_loop import ProjectorLoop
        from seekpoint.consumers.projector.projector_parts import ProjectorParts

        with contextlib.ExitStack() as stack:
            parts = ProjectorParts.connect(self.settings, stack)
            loop = ProjectorLoop(parts.join, parts.source(self.settings, self._cadence), parts.requests)
            stack.callback(loop.close)
            while not self._stop.is_set():
                loop.turn()
                self._lag, self.is_lost, self._save_failure = loop.lag(), loop.is_lost, loop.save_failure
                loop.is_forcing = any(goal.is_projected(loop) for goal in [*self._goals])
                for goal in [*self._goals]:
                    goal.advance(loop)
                stopped = loop.stopped
                if stopped and len(stopped) == len(loop.projections):
                    raise next(iter(stopped.values()))


class _CatchUp:
    """One call of ``catch_up``: reached when all partitions are projected and saved to the ends they had at first."""

    def __init__(self) -> None:
        self.reached: Future[None] = Future()
        self.behind: set[int] = set()
        self._ends: dict[int, int] = {}
        self._known: dict[int, PartitionHeads] = {}
        self._check_at_s = 0.0

    def fail(self, error: BaseException) -> None:
        """Record that the goal cannot be reached."""
        if not self.reached.done():
            self.reached.set_exception(error)

    def advance(self, loop: ProjectorLoop) -> None:
        """Update what is behind."""
        if self.reached.done():
            return
        try:
            if not self._ends:
                log = loop.source.log
                self._ends = {number: log.watermarks(number).high for number in range(log.partitions)}
                self.behind = set(self._ends)
            self.behind = {number for number in self.behind if not self._has_reached_end(loop, number)}
        except SeekpointError as exc:
            self.fail(exc)
            return
        for partition in self.behind & loop.stopped.keys():
            self.fail(loop.stopped[partition])
            return
        if not self.behind:
            self.reached.set_result(None)

    def is_projected(self, loop: ProjectorLoop) -> bool:
        """Return whether only saves are left to do. Forced earlier, they would save every process again and again."""
        return bool(self._ends) and all(
            one.is_ready and one.position >= self._ends[number] for number, one in loop.projections.items()
        )

    def _has_reached_end(self, loop: ProjectorLoop, partition: int) -> bool:
        end = self._ends[partition]
        projection = loop.projections.get(partition)
        if projection is not None:
            has_passed = projection.position >= end and projection.floor >= end
            return projection.is_ready and has_passed and projection.check_view()
        if time.monotonic() < self._check_at_s:
            return False
        self._check_at_s = time.monotonic() + _CHECK_INTERVAL_S
        meta = loop.source.view.meta(partition)
        if meta is None or meta.applied is None or meta.applied + 1 < end:
            return False
        known = read_heads(loop.source.checkpoints, partition, self._known.get(partition))
        self._known[partition] = known
        return end == 0 or (known.floor is not None and known.floor.offset >= end)
