"""A pool of open processes: a process that is used again and again is opened once.

not there ── first use ──> opening ──> open ── idle for idle_s, or one too many ──> releasing ──> not there
                                        └── fenced or closed: dropped, the next use opens it anew
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from seekpoint.producers.process import Process, durable_side
from seekpoint.schemas.errors import HandleClosed, InvalidSetting, SeekpointError

if TYPE_CHECKING:
    from seekpoint.producers.opening import Opening

logger = logging.getLogger("seekpoint.producers")


class ProcessPool:
    """Open processes of one node, for its event loop: ``async with node.pool() as pool``. See ``Node.pool``."""

    def __init__(self, open_process: Callable[[str], Opening], open_max: int, idle_s: float) -> None:
        if open_max < 1 or not idle_s > 0:
            raise InvalidSetting(
                "a pool keeps at least one process, for a time above 0", found=repr((open_max, idle_s)),
                hint="give open_max and idle_s",
            )  # fmt: skip
        self._open = open_process
        self._open_max = open_max
        self._idle_s = idle_s
        self._places: OrderedDict[str, _Place] = OrderedDict()
        """By process: the one whose last use ended last at the end."""
        self._releasing: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    async def __aenter__(self) -> ProcessPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def open_count(self) -> int:
        """Return how many processes the pool has open, or opens."""
        return len(self._places)

    @asynccontextmanager
    async def process(self, process_id: str) -> AsyncIterator[Process]:
        """Use a process: open it, unless it is open. Uses at the same time share it; leaving does not release it.

        An exception that leaves the block is the caller's: it is not recorded in the process. Raises ``Fenced`` at the
        end of the block if another owner has claimed the process meanwhile, and what ``Node.open`` raises.
        """
        place = await self._used(process_id)
        process = place.process
        assert process is not None
        try:
            yield process
            if not process.is_open:
                durable_side(process).session.check()  # the caller must learn that what it wrote may not count
        finally:
            self._leave(process_id, place)

    async def release(self, process_id: str) -> None:
        """Release a process of the pool now, whoever uses it. Return once any node may open it; idempotent."""
        place = self._places.get(process_id)
        if place is not None:
            self._begin_release(process_id, place)
        if (task := self._releasing.get(process_id)) is not None:
            await asyncio.shield(task)

    async def close(self) -> None:
        """Release all processes, those in use too: their next call raises ``HandleClosed``. Idempotent."""
        self._is_closed = True
        for process_id, place in list(self._places.items()):
            self._begin_release(process_id, place)
        while self._releasing:
            await asyncio.gather(*map(asyncio.shield, self._releasing.values()))

    # --- places
    async def _used(self, process_id: str) -> _Place:
        """Return the place of the process, with one more user, once the process is open."""
        while True:
            if self._is_closed:
                raise HandleClosed("the pool was closed", process_id=process_id, hint="use a pool that is open")
            if (task := self._releasing.get(process_id)) is not None:
                await asyncio.shield(task)
                continue
            place = self._places.get(process_id)
            if place is not None and place.is_lost:
                self._drop(process_id, place)
                place = None
            if place is None:
                place = self._places[process_id] = _Place(asyncio.ensure_future(_opened(self._open(process_id))))
            place.users += 1
            place.stop_timer()
            try:
                await asyncio.shield(place.opened)  # a caller that is cancelled leaves the process to the others
            except BaseException:
                self._leave(process_id, place)
                raise
            self._release_surplus()
            if self._places.get(process_id) is place and not place.is_lost:
                return place
            self._leave(process_id, place)

    def _leave(self, process_id: str, place: _Place) -> None:
        """Note that a user has gone. The last one leaves the process to the timer, or drops what is lost."""
        place.users -= 1
        if place.users or self._places.get(process_id) is not place:
            return
        if place.is_lost:
            self._drop(process_id, place)
            return
        self._places.move_to_end(process_id)
        loop = asyncio.get_running_loop()
        place.timer = loop.call_later(self._idle_s, self._begin_release, process_id, place)
        self._release_surplus()

    def _release_surplus(self) -> None:
        """Release the processes that nobody has used for longest, down to the number to keep."""
        for process_id, place in list(self._places.items()):
            if len(self._places) <= self._open_max:
                return
            if not place.users:
                self._begin_release(process_id, place)

    def _begin_release(self, process_id: str, place: _Place) -> None:
        if self._places.get(process_id) is place:
            del self._places[process_id]
            place.stop_timer()
            self._releasing[process_id] = asyncio.ensure_future(self._release(process_id, place))

    async def _release(self, process_id: str, place: _Place) -> None:
        try:
            await _released(place)
        finally:
            del self._releasing[process_id]  # here, so that nobody waits for a task that is done

    def _drop(self, process_id: str, place: _Place) -> None:
        """Forget a process whose handle was lost: there is nothing to release."""
        del self._places[process_id]
        place.stop_timer()
        if (process := place.process) is not None:
            durable_side(process).abandon()


class _Place:
    """One process of a pool."""

    def __init__(self, opened: asyncio.Future[Process]) -> None:
        self.opened = opened
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None
        opened.add_done_callback(lambda done: done.cancelled() or done.exception())  # no caller may be left to get it

    @property
    def process(self) -> Process | None:
        """The process, once it is open; None if it cannot be opened."""
        done = self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None
        return self.opened.result() if done else None

    @property
    def is_lost(self) -> bool:
        """Whether the process cannot be used any more: it was fenced, released or finished, or was never opened."""
        process = self.process
        return self.opened.done() and (process is None or not process.is_open)

    def stop_timer(self) -> None:
        """Keep the process, however long it was idle."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


async def _opened(opening: Opening) -> Process:
    process = await opening
    durable_side(process).set_main_task(None)  # its users are tasks, and all are its main code
    return process


async def _released(place: _Place) -> None:
    """Release a process as ``async with node.open`` does. One that cannot be released stays claimed until somebody
    claims it."""
    await asyncio.wait([place.opened])
    process = place.process
    if process is None:
        return
    durable = durable_side(process)
    try:
        if process.is_open:
            await durable.release_children()
            await process.release()
    except SeekpointError as exc:
        logger.warning("a process of a pool was not released: %s", exc)
    finally:
        durable.abandon()
