"""Track the child processes that run beside the code of one process."""

from __future__ import annotations

import asyncio
import logging
from hashlib import blake2b

from seekpoint.producers.durable.idempotency_keys import call_identity
from seekpoint.producers.durable.session import Session
from seekpoint.producers.durable.waits.waiting import Waiting
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

logger = logging.getLogger("seekpoint.producers")


class ChildEnd(FrozenStruct, frozen=True):
    """The end of a child."""

    outcome: str
    text: b.Json
    error: Exception | None = None


class ChildFailure(Exception):  # no error of its own: it carries the failure of a child
    """The failure of a child that ran elsewhere, as JSON text."""

    def __init__(self, text: b.Json) -> None:
        super().__init__("the child failed")
        self.text = text


async def granted_to(session: Session, given: object) -> b.Json | None:
    """Return what its parent lets a child use that begins with ``given``; None if that is not limited.

    A child that was submitted reads it from the entry of its spawn.
    """
    wanted = session.written.submission
    if wanted is None or wanted.spawned_by is None or session.written.agent is not None:
        granted: b.Json | None = getattr(given, "granted", None)
        return granted
    calls = (await session.recover(wanted.spawned_by, missing_ok=True)).state.calls.values()
    children = (call.facts for call in calls if call.kind == "child")
    return next((facts.get("limits") for facts in children if facts["child_id"] == session.process_id), None)


class Children:
    """The children that run beside the code of one process."""

    def __init__(self, session: Session, waiting: Waiting) -> None:
        self._session = session
        self._waiting = waiting
        self._running: dict[str, tuple[str, asyncio.Task[ChildEnd]]] = {}

    def add(self, key: str, child_id: str, task: asyncio.Task[ChildEnd]) -> None:
        """Add the child of the call ``key``, which ``task`` runs."""
        self._running[key] = child_id, task

    async def join(self, prefix: str = "") -> None:
        """Wait for the children whose key begins with ``prefix``, also for those whose result no code awaits."""
        for key in [key for key in self._running if key.startswith(prefix)]:
            child_id, task = self._running[key]
            end = await self._waiting.until_task(task)
            if end.outcome == "failed":
                logger.info("%s: its child %s failed: %s", self._session.process_id, child_id, end.text[:200])
            del self._running[key]

    async def cancel(self) -> None:
        """Cancel the children that have not ended, and wait until they have."""
        for key, call in self._session.written.calls.items():
            if call.kind == "child" and call.status == "started":
                await self.request_cancel(key, call.facts["child_id"])
        tasks = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                text = error_line(error, self._session.settings)
                logger.warning("%s: a child did not end: %s", self._session.process_id, text)

    async def request_cancel(self, key: str, child_id: str) -> None:
        """Send a request to cancel to one child. All requests of one parent count as one."""
        name = f"{call_identity(self._session, key)}\0cancel"
        body = b.CancelRequested(f"its parent {self._session.process_id} was cancelled")
        await self._session.append_external(child_id, body, entry_id=blake2b(name.encode(), digest_size=16).digest())

    def abandon(self) -> list[asyncio.Task[ChildEnd]]:
        """Release the children as they stand; return their tasks that have yet to end."""
        ending = [task for _, task in self._running.values() if not task.done()]
        for task in ending:
            task.cancel()
        for _, task in self._running.values():
            task.add_done_callback(_log_error)
        self._running.clear()
        return ending

    async def release(self) -> None:
        """Release the children as they stand; return once they are released."""
        ending = self.abandon()
        if ending:
            await asyncio.wait(ending)


def _log_error(task: asyncio.Task[ChildEnd]) -> None:
    """Read the exception of a task that no code awaits: else asyncio logs that it was never retrieved."""
    if not task.cancelled() and isinstance(error := task.exception(), SeekpointError):
        logger.info("a child was released: %s", error)
