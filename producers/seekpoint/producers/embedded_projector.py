"""A projector inside a node, for small fleets that do not run it as a service of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import GroupLost, Retryable, SeekpointError

logger = logging.getLogger("seekpoint.producers")

_RETRY_S = 5.0


class _Projector(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


class EmbeddedProjector:
    """A projector that runs beside a node's processes, with threads of its own.

    An error that ends it is logged (logger ``seekpoint.producers``) and kept as ``failure``. It does not reach an
    agent: recoveries take longer, nothing is lost. After a ``Retryable`` error the projector starts again every five
    seconds; after any other it stays stopped.
    """

    def __init__(self, projector: _Projector, settings: Settings, *, retry_s: float = _RETRY_S) -> None:
        self.failure: BaseException | None = None
        """The error that ended it last; None while it runs."""
        self._projector = projector
        self._settings = settings
        self._retry_s = retry_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to project."""
        self._task = asyncio.create_task(self._go_on(), name="seekpoint-projector")

    async def close(self) -> None:
        """Save what is dirty, leave the consumer group, and return."""
        task, self._task = self._task, None
        if task is None:
            return
        self._projector.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _go_on(self) -> None:
        while True:
            try:
                await self._watched(self._projector.run)
                return
            except (Retryable, GroupLost) as exc:
                self._report(exc, f"it is started again in {self._retry_s:g} s")
            except SeekpointError as exc:
                self._report(exc, "it stays stopped: view and checkpoints stand still")
                return
            except Exception as exc:
                self._report(exc, "it stays stopped: view and checkpoints stand still", trace=True)
                return
            await asyncio.sleep(self._retry_s)

    async def _watched(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run the projector; clear ``failure`` once it has run for a while."""
        running = asyncio.ensure_future(run())
        try:
            if not (await asyncio.wait({running}, timeout=self._retry_s))[0]:
                self.failure = None
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _report(self, exc: BaseException, then: str, *, trace: bool = False) -> None:
        self.failure = exc
        text = traceback_of(exc, self._settings) if trace else self._settings.scrub(str(exc))
        logger.error("the node's projector failed, %s: %s", then, text)
