"""The thread that polls a tail and hands what came to an event loop, as long as somebody wants it."""

from __future__ import annotations

import asyncio
import logging
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
"""How long a partition that is begun may wait for a poll that nothing ends."""
_LINGER_S = 0.5
"""It rests when nobody has wanted anything for so long: beginning again costs some milliseconds."""
_UNTAKEN_MAX = 2
"""So many polls may wait for the event loop; then no more is polled."""

Take = Callable[[int, "TailBatch"], None]


class Follower:
    """One thread. ``begin``, ``end`` and ``want`` at any time, from the event loop."""

    def __init__(self, reader: LogReader, settings: Settings) -> None:
        self._reader = reader
        self._settings = settings
        self._plan: dict[int, tuple[int, int]] = {}
        """Partition -> (generation, position): replaced as a whole, so that the thread sees one or the other."""
        self._wanted = threading.Event()
        self._wanted_at = 0.0
        self._room = threading.Semaphore(_UNTAKEN_MAX)
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take: Take | None = None
        self.rests = False

    def start(self, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        """Hand what comes to ``take`` in ``loop``, with the generation it was begun with."""
        self._loop, self._take = loop, take
        self._thread = threading.Thread(target=self._follow, name="seekpoint-tailer", daemon=True)
        self._thread.start()

    def begin(self, partition: int, position: int, generation: int) -> None:
        """Follow ``partition`` from ``position`` on."""
        self._plan = {**self._plan, partition: (generation, position)}
        self.want()

    def end(self, partition: int) -> None:
        """Follow it no more."""
        self._plan = {each: plan for each, plan in self._plan.items() if each != partition}

    def want(self) -> None:
        """Somebody waits: poll, for a while."""
        self._wanted_at = time.monotonic()
        self._wanted.set()

    def close(self) -> None:
        """End the thread. Blocks for a moment; idempotent."""
        self._closed = True
        self._wanted.set()
        self._room.release()
        if self._thread is not None:
            self._thread.join(5.0)

    # --- the thread's
    def _follow(self) -> None:
        tail = self._reader.tail()
        following: dict[int, tuple[int, int]] = {}
        try:
            while not self._closed:
                if time.monotonic() - self._wanted_at > _LINGER_S:
                    self._rest(tail, following)
                    continue
                self._adjust(tail, following)
                stretches = tail.poll(_POLL_S)
                if stretches and not self._hand_over(stretches, following):
                    return
        except Exception as exc:
            logger.error("the tailer ended: %s", traceback_of(exc, self._settings))
        finally:
            tail.close()

    def _rest(self, tail: Tail, following: dict[int, tuple[int, int]]) -> None:
        for partition in following:
            tail.end(partition)
        self._wanted.clear()
        if time.monotonic() - self._wanted_at > _LINGER_S and not self._closed:
            self.rests = True
            self._wanted.wait()
            self.rests = False
        for partition, (_, position) in following.items():
            if partition in self._plan:
                tail.begin(partition, position)

    def _adjust(self, tail: Tail, following: dict[int, tuple[int, int]]) -> None:
        """Follow what is planned: what was begun anew from where that says, the rest as it is."""
        plan = self._plan
        for partition in following.keys() - plan.keys():
            tail.end(partition)
            del following[partition]
        for partition, (generation, position) in plan.items():
            if partition not in following or following[partition][0] != generation:
                tail.begin(partition, position)
                following[partition] = generation, position

    def _hand_over(self, stretches: Sequence[TailBatch], following: dict[int, tuple[int, int]]) -> bool:
        """Give them to the loop; False if it is gone."""
        handed = []
        for stretch in stretches:
            if stretch.partition in following:
                generation = following[stretch.partition][0]
                following[stretch.partition] = generation, stretch.next_offset
                handed.append((generation, stretch))
        self._room.acquire()
        if self._closed:
            return False
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._handed, handed)
        except RuntimeError:  # the loop was closed without us
            return False
        return True

    def _handed(self, handed: Sequence[tuple[int, TailBatch]]) -> None:
        self._room.release()
        assert self._take is not None
        for generation, stretch in handed:
            try:
                self._take(generation, stretch)
            except SeekpointError as exc:
                logger.error("a stretch could not be taken: %s", traceback_of(exc, self._settings))
