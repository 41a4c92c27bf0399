"""Write what several calls ask for in as few entries as possible: while one entry is under way, calls wait together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Asked(NamedTuple, Generic[T]):
    """An item of one call, and the future that its caller awaits."""

    item: T
    done: asyncio.Future[None]

    def settle(self, error: Exception | None = None) -> None:
        """Tell the caller, unless it was told or cancelled before."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class WriteQueue(Generic[T]):
    """The items that wait for one process. It belongs to the event loop of the node.

    ``take`` removes the items of the next entry from the queue. ``write`` writes them, and may settle single ones. The
    others of the batch have its result. After an error, ``forget`` drops what may be out of date.
    """

    def __init__(
        self,
        name: str,
        take: Callable[[deque[Asked[T]]], Awaitable[list[Asked[T]]]],
        write: Callable[[list[Asked[T]]], Awaitable[None]],
        forget: Callable[[], None],
    ) -> None:
        self._name = name
        self._take = take
        self._write = write
        self._forget = forget
        self._queue: deque[Asked[T]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._task is None or self._task.done()

    async def put(self, item: T) -> None:
        """Have an item written; return once it is applied. A caller that is cancelled leaves it to be written."""
        asked = Asked(item, asyncio.get_running_loop().create_future())
        self._queue.append(asked)
        if self.is_idle:
            self._task = asyncio.create_task(self._work(), name=self._name)
        await asked.done

    async def _work(self) -> None:
        batch: list[Asked[T]] = []
        try:
            while self._queue:
                batch = await self._take(self._queue)
                error: Exception | None = None
                try:
                    await self._write(batch)
                except Exception as exc:  # each caller gets it
                    self._forget()
                    error = exc
                for asked in batch:
                    asked.settle(error)
        except BaseException:
            for asked in (*batch, *self._queue):
                asked.done.cancel()
            self._queue.clear()
            self._forget()
            raise
