"""Waiting: for mail, for a moment, for another process. What a process waits for costs it nothing until it comes.

A process that waits is ``awaiting``, and ``running`` once it goes on. A request to cancel it ends every wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from seekpoint.producers.durable.session import Session
from seekpoint.producers.durable.waits.cancelling import Cancelling
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Retryable
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import MailItem

__all__ = ["Waiting"]

T = TypeVar("T")

_AGAIN_S = 1.0


class Waiting:
    """The waits of one open process."""

    def __init__(self, session: Session, cancelling: Cancelling) -> None:
        self._session = session
        self._cancelling = cancelling
        self.queues: dict[str | None, deque[object]] = {}
        """Who waits for mail, by its name (None: for any), in the order of the program, served in that order: gates by
        their keys, receipts by their places."""

    @property
    def mail(self) -> list[MailItem]:
        """The external entries nobody took yet, in log order."""
        return self._session.mail

    @contextmanager
    def in_queue(self, name: str | None, who: object) -> Iterator[None]:
        """While inside, ``who`` waits for mail of this name. An empty queue goes: names may be new ones for ever."""
        queue = self.queues.setdefault(name, deque())
        queue.append(who)
        try:
            yield
        finally:
            queue.remove(who)
            if not queue:
                del self.queues[name]
            self.look_again()

    def is_awaited(self, name: str) -> bool:
        """Whether a gate or a receipt waits for a signal called so: it is nobody else's."""
        return bool(self.queues.get(name)) or any(name in queue for queue in self.queues.values())

    def look_again(self, _: object = None) -> None:
        """Something may have come: whoever waits asks again."""
        self._session.mail_changed.set()

    async def until(self, found: Callable[[], T | None], due_us: int | None = None) -> T | None:
        """What ``found`` gives, once it gives something; None once ``due_us`` has come and nothing in the log helps.

        ``found`` is asked whenever the mailbox has changed. Raises ``Cancelled``, and what ends the handle.
        """
        if (value := found()) is not None:
            return value
        self._park()
        timer = None if due_us is None else asyncio.ensure_future(self._session.clock.until(due_us))
        if timer is not None:
            timer.add_done_callback(self.look_again)
        try:
            value = await self._until(found, timer)
        finally:
            if timer is not None:
                timer.cancel()
        self._go_on()
        return value

    async def _until(self, found: Callable[[], T | None], timer: asyncio.Future[None] | None) -> T | None:
        is_last = False
        async with self._session.watching():
            while True:
                self._session.check_open()
                self._session.mail_changed.clear()
                self._cancelling.check()
                if (value := found()) is not None or is_last:
                    return value
                if timer is not None and timer.done():
                    await self._look()  # what is in the log by now comes before the moment
                    is_last = True
                else:
                    await self._session.mail_changed.wait()

    async def _look(self) -> None:
        """Fold what is in the log by now; while it cannot be read, wait for it as an append would."""
        while True:
            try:
                return await self._session.look()
            except Retryable:
                self._session.check_open()
                await asyncio.sleep(_AGAIN_S)

    def _park(self) -> None:
        if self._session.ahead_lifecycle is Lifecycle.RUNNING:
            self._session.send(b.LifecycleChanged(Lifecycle.AWAITING))

    def _go_on(self) -> None:
        if self._session.ahead_lifecycle is Lifecycle.AWAITING:
            self._session.send(b.LifecycleChanged(Lifecycle.RUNNING))
