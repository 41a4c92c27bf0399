"""The child processes that run beside the code of one process, until they end or are left."""

from __future__ import annotations

import asyncio
import logging
from hashlib import blake2b

from seekpoint.producers.durable.session import Session, idempotency_key
from seekpoint.producers.durable.waits.waiting import Waiting
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import SeekpointError

__all__ = ["ChildEnd", "Children"]

logger = logging.getLogger("seekpoint.producers")


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended."""

    outcome: str
    text: b.Json
    error: Exception | None = None


class Children:
    """The children that run beside the code of one process."""

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._running: dict[str, tuple[str, asyncio.Task[ChildEnd]]] = {}

    def add(self, key: str, child_id: str, task: asyncio.Task[ChildEnd]) -> None:
        """One more."""
        self._running[key] = child_id, task

    async def settle(self, prefix: str = "") -> None:
        """Wait for those whose key begins with ``prefix``, whether anybody asked for their results or not."""
        for key in [key for key in self._running if key.startswith(prefix)]:
            child_id, task = self._running[key]
            await self._waiting.until(lambda task=task: task.done() or None)  # type: ignore[misc]  # mypy cannot infer it
            end = task.result()
            if end.outcome == "failed":
                logger.info("%s: its child %s failed: %s", self._session.process_id, child_id, end.text[:200])
            del self._running[key]

    async def cancel(self) -> None:
        """Pass a cancel on to all that have not ended, and wait until they have."""
        for key, call in self._session.written.calls.items():
            if call.kind == "child" and call.status == "started":
                await self.pass_on(key, call.facts["child_id"])
        left = [task for _, task in self._running.values()]
        if left:
            await asyncio.wait(left)
        for task in left:
            if not task.cancelled() and (error := task.exception()) is not None:
                said = error_line(error, self._session.settings)
                logger.warning("%s: a child did not end: %s", self._session.process_id, said)

    async def pass_on(self, key: str, child_id: str) -> None:
        """Ask one to stop; however often it is asked, it is one request."""
        name = f"{idempotency_key(self._session, key)}\0cancel"
        body = b.CancelRequested(f"its parent {self._session.process_id} was cancelled")
        await self._session.tell(child_id, body, entry_id=blake2b(name.encode(), digest_size=16).digest())

    def abandon(self) -> list[asyncio.Task[ChildEnd]]:
        """The run is over: they are released as they stand. The tasks that are ending."""
        ending = [task for _, task in self._running.values() if not task.done()]
        for task in ending:
            task.cancel()
        for _, task in self._running.values():
            task.add_done_callback(_look)
        self._running.clear()
        return ending

    async def leave(self) -> None:
        """The same, once they are."""
        ending = self.abandon()
        if ending:
            await asyncio.wait(ending)


def _look(task: asyncio.Task[ChildEnd]) -> None:
    """Nobody asks any more: what it raised is looked at, so that nobody complains."""
    if not task.cancelled() and isinstance(error := task.exception(), SeekpointError):
        logger.info("a child was left: %s", error)
