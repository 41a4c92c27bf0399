"""Wait for mail, a moment or another process: a waiting process uses neither a thread nor a poll.

The lifecycle of a waiting process is ``awaiting``, and ``running`` once its code goes on. A request to cancel the
process ends the wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from seekpoint.producers.durable.session import Session
from seekpoint.producers.durable.waits.cancellation import Cancellation
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Retryable
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import MailItem

T = TypeVar("T")

_RETRY_S = 1.0


class Waiting:
    """The waits of one open process."""

    def __init__(self, session: Session, cancellation: Cancellation) -> None:
        self._session = session
        self._cancellation = cancellation
        self.queues: dict[str | None, deque[object]] = {}
        """The calls that wait for mail, by its name (None: for any), in the order in which they are served: gates by
        their keys, receives by their places."""
        self._dues: list[int] = []
        self.elsewhere = 0
        """How many calls wait for what comes to another process: then the process stays in memory."""

    @property
    def due_us(self) -> int | None:
        """The first moment that a call waits for, in microseconds since 1970; None if none does."""
        return min(self._dues, default=None)

    @property
    def mail(self) -> list[MailItem]:
        """The external entries that no call has taken yet, in log order."""
        return self._session.mail

    @contextmanager
    def in_queue(self, name: str | None, waiter: object) -> Iterator[None]:
        """Keep ``waiter`` in the queue for mail of this name. Drop the queue when it is empty: names are unbounded."""
        queue = self.queues.setdefault(name, deque())
        queue.append(waiter)
        try:
            yield
        finally:
            queue.remove(waiter)
            if not queue:
                del self.queues[name]
            self.wake()

    def is_awaited(self, name: str) -> bool:
        """Whether a gate or a receive waits for a signal of this name."""
        return bool(self.queues.get(name)) or any(name in queue for queue in self.queues.values())

    def wake(self, _: object = None) -> None:
        """Let every waiting call look again for what it waits for."""
        self._session.mail_changed.set()

    async def until(
        self, find: Callable[[], T | None], due_us: int | None = None, *, reason: str | None = None
    ) -> T | None:
        """Return the first value of ``find`` that is not None, or None if the log has nothing for it by ``due_us``.

        ``find`` runs whenever the mailbox may have changed. The process is ``awaiting`` meanwhile, for this ``reason``.
        Raises ``Cancelled``, and what ended the process for this node.
        """
        if (value := find()) is not None:
            return value
        self._move(Lifecycle.RUNNING, Lifecycle.AWAITING, reason)
        timer = None
        if due_us is not None:
            self._dues.append(due_us)
            timer = asyncio.ensure_future(self._session.clock.until(due_us))
            timer.add_done_callback(self.wake)
        try:
            value = await self._first(find, timer, self._cancellation.check)
        finally:
            if timer is not None and due_us is not None:
                timer.cancel()
                self._dues.remove(due_us)
        self._move(Lifecycle.AWAITING, Lifecycle.RUNNING)
        return value

    async def until_task(self, task: asyncio.Task[T]) -> T:
        """Return the result of ``task``; the process is ``awaiting`` meanwhile. Raises as ``until`` does."""
        await self.until(lambda: task.done() or None)
        return task.result()

    async def for_mail(self, find: Callable[[], T | None]) -> T:
        """Return the first value of ``find`` that is not None.

        The lifecycle does not change, and a request to cancel does not end the wait. Raises what ended the process for
        this node.
        """
        value = await self._first(find)
        assert value is not None  # without a timer
        return value

    async def _first(
        self,
        find: Callable[[], T | None],
        timer: asyncio.Future[None] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> T | None:
        is_last = False
        async with self._session.watching():
            while True:
                self._session.check_open()
                self._session.mail_changed.clear()
                check()
                if (value := find()) is not None or is_last:
                    return value
                if timer is not None and timer.done():
                    await self._read_log()  # an entry that is in the log by now counts as in time
                    is_last = True
                else:
                    await self._session.mail_changed.wait()

    async def _read_log(self) -> None:
        """Fold what is in the log by now. While Kafka cannot be read, retry as an append does."""
        while True:
            try:
                return await self._session.read_log()
            except Retryable:
                self._session.check_open()
                await asyncio.sleep(_RETRY_S)

    def _move(self, before: Lifecycle, after: Lifecycle, reason: str | None = None) -> None:
        if self._session.ahead_lifecycle is before:
            self._session.send(b.LifecycleChanged(after, reason))
