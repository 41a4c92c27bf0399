"""A projector inside a node: for small fleets that would rather not run it as a service of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Retryable, SeekpointError

__all__ = ["EmbeddedProjector"]

logger = logging.getLogger("seekpoint.producers")

_RETRY_S = 5.0


class _Projector(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


class EmbeddedProjector:
    """Runs a projector beside a node's processes; its work is done in threads of its own.

    Whatever ends it is an error in the log (logger ``seekpoint.producers``), kept as ``failure``, and no agent's
    business: recoveries get longer, nothing is lost. What may go by itself is tried again every five seconds; what a
    person has to look at leaves it stopped.
    """

    def __init__(self, projector: _Projector, settings: Settings, *, retry_s: float = _RETRY_S) -> None:
        self.failure: BaseException | None = None
        """What ended it last; None while it runs."""
        self._projector = projector
        self._settings = settings
        self._retry_s = retry_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to project."""
        self._task = asyncio.create_task(self._go_on(), name="seekpoint-projector")

    async def close(self) -> None:
        """Have it save what is dirty and leave its group; return once it has."""
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
            except Retryable as exc:
                self._tell(exc, f"it is started again in {self._retry_s:g} s")
            except SeekpointError as exc:
                self._tell(exc, "it stays stopped: view and checkpoints stand still")
                return
            except Exception as exc:
                self._tell(exc, "it stays stopped: view and checkpoints stand still", trace=True)
                return
            await asyncio.sleep(self._retry_s)

    async def _watched(self, run: Callable[[], Awaitable[None]]) -> None:
        """Once it has run for a while, what ended it before is over."""
        running = asyncio.ensure_future(run())
        try:
            if not (await asyncio.wait({running}, timeout=self._retry_s))[0]:
                self.failure = None
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _tell(self, exc: BaseException, then: str, *, trace: bool = False) -> None:
        self.failure = exc
        text = traceback_of(exc, self._settings) if trace else self._settings.scrub(str(exc))
        logger.error("the node's projector failed, %s: %s", then, text)
