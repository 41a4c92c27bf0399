"""The thread that polls a tail and gives its batches to an event loop, as long as a caller waits for records."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import LogReader

if TYPE_CHECKING:
    from seekpoint.schemas.log.tail import Tail, TailBatch

__all__ = ["Follower"]

logger = logging.getLogger("seekpoint.producers")

_POLL_S = 0.005
"""How long a poll waits: a partition that is begun meanwhile waits until it ends."""
_QUIET_POLL_S, _STEADY_POLL_S = 0.05, 0.2
"""How long a poll waits if nothing has come for ``_LINGER_S``: records end it, so only a new partition waits longer.

The client wakes a longer poll every 0.2 s.
"""
_LINGER_S = 0.5
"""The thread stops polling when nobody has waited for so long: beginning again costs some milliseconds."""
_REST_S = 0.05
"""The same where the node writes alone: the thread would read own records, which the event loop has."""
_UNTAKEN_MAX = 2
"""The thread stops polling while the results of so many polls wait for the event loop."""

OnBatch = Callable[[int, "TailBatch"], None]


class Follower:
    """A thread that polls. Call ``begin``, ``end`` and ``wake`` at any time, from the event loop."""

    def __init__(self, reader: LogReader, settings: Settings) -> None:
        self._reader = reader
        self._settings = settings
        self._plan: dict[int, tuple[int, int]] = {}
        """Partition -> (generation, position). Replaced as a whole, so that the thread never sees half of a change."""
        self._passed: dict[int, int] = {}
        """Partition -> the offset below which the event loop has all records, from elsewhere."""
        self._awake = threading.Event()
        self._woken_at = 0.0
        self._passed_at = -math.inf
        self._is_held = False
        self._room = threading.Semaphore(_UNTAKEN_MAX)
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_batch: OnBatch | None = None
        self.is_steady = False
        """Whether the partitions rarely change. Set it before ``start``."""
        self.is_idle = False
        """Whether the thread pauses, because nobody waits."""
        self.rounds = 0
        """How often the thread has polled. It stands still if this does not rise while it is not idle."""

    def start(self, loop: asyncio.AbstractEventLoop, on_batch: OnBatch) -> None:
        """Call ``on_batch`` in ``loop`` with each batch and the generation that its partition was begun with."""
        self._loop, self._on_batch = loop, on_batch
        self._thread = threading.Thread(target=self._follow, name="seekpoint-tailer", daemon=True)
        self._thread.start()

    def begin(self, partition: int, position: int, generation: int) -> None:
        """Follow ``partition`` from ``position`` on."""
        self._passed.pop(partition, None)
        self._plan = {**self._plan, partition: (generation, position)}
        self.wake()

    def end(self, partition: int) -> None:
        """Stop following ``partition``."""
        self._plan = {each: plan for each, plan in self._plan.items() if each != partition}
        self._passed.pop(partition, None)

    def passed(self, partition: int, position: int) -> None:
        """Take note that the event loop has all records below ``position``: after a pause they are not read again."""
        self._passed[partition], self._passed_at = position, time.monotonic()

    def rest(self) -> None:
        """Pause, unless a caller has begun to wait just now: only this node writes."""
        if time.monotonic() - self._woken_at > _REST_S:
            self._woken_at = -math.inf

    @property
    def may_lag(self) -> bool:
        """Whether it pauses, and no own record has told lately how far the partitions reach."""
        return self.is_idle and time.monotonic() - self._passed_at > _LINGER_S

    def wake(self) -> None:
        """Poll for a while: a caller waits."""
        self._woken_at = time.monotonic()
        self._awake.set()

    def hold(self, is_held: bool) -> None:
        """Poll until this is called with False: callers wait for any record."""
        self._is_held = is_held
        if is_held:
            self.wake()

    def close(self) -> None:
        """End the thread. Blocks for a moment; idempotent."""
        self._closed = True
        self._awake.set()
        self._room.release()
        if self._thread is not None:
            self._thread.join(5.0)

    # --- in the thread
    def _follow(self) -> None:
        tail = self._reader.tail(is_steady=self.is_steady)
        following: dict[int, tuple[int, int]] = {}
        quiet_poll_s = _STEADY_POLL_S if self.is_steady else _QUIET_POLL_S
        came_at = time.monotonic()
        try:
            while not self._closed:
                if self._may_pause():
                    self._pause(tail, following)
                    continue
                self._adjust(tail, following)
                is_quiet = time.monotonic() - came_at > _LINGER_S
                batches = tail.poll(quiet_poll_s if is_quiet else _POLL_S)
                self.rounds += 1
                if batches:
                    came_at = time.monotonic()
                    if not self._hand_over(batches, following):
                        return
        except Exception as exc:
            logger.error("the tailer ended: %s", traceback_of(exc, self._settings))
        finally:
            tail.close()

    def _may_pause(self) -> bool:
        return not self._is_held and time.monotonic() - self._woken_at > _LINGER_S

    def _pause(self, tail: Tail, following: dict[int, tuple[int, int]]) -> None:
        """End the tail's fetches until the thread is woken."""
        for partition in following:
            tail.end(partition)
        self._awake.clear()
        if self._may_pause() and not self._closed:
            self.is_idle = True
            self._awake.wait()
            self.is_idle = False
        for partition, (generation, position) in following.items():
            if partition in self._plan:
                self._begin(tail, following, partition, generation, position)

    def _adjust(self, tail: Tail, following: dict[int, tuple[int, int]]) -> None:
        """Follow the planned partitions; begin those of a new generation at their planned position."""
        plan = self._plan
        for partition in following.keys() - plan.keys():
            tail.end(partition)
            del following[partition]
        for partition, (generation, position) in plan.items():
            if partition not in following or following[partition][0] != generation:
                self._begin(tail, following, partition, generation, position)

    def _begin(
        self, tail: Tail, following: dict[int, tuple[int, int]], partition: int, generation: int, position: int
    ) -> None:
        """Read from ``position`` on, or from where the event loop has come to without this thread."""
        following[partition] = generation, max(position, self._passed.get(partition, 0))
        tail.begin(partition, following[partition][1])

    def _hand_over(self, batches: Sequence[TailBatch], following: dict[int, tuple[int, int]]) -> bool:
        """Give ``batches`` to the loop. False if the loop is gone."""
        handed = []
        for batch in batches:
            if batch.partition in following:
                generation = following[batch.partition][0]
                following[batch.partition] = generation, batch.next_offset
                handed.append((generation, batch))
        self._room.acquire()
        if self._closed:
            return False
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._handed, handed)
        except RuntimeError:  # the loop was closed, and this thread was not
            return False
        return True

    def _handed(self, handed: Sequence[tuple[int, TailBatch]]) -> None:
        self._room.release()
        assert self._on_batch is not None
        for generation, batch in handed:
            try:
                self._on_batch(generation, batch)
            except SeekpointError as exc:
                logger.error("a batch could not be delivered: %s", traceback_of(exc, self._settings))
