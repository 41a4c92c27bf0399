"""Record an invocation: one unit of an agent's work, from its trigger to its result."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.config.settings import Settings

__all__ = ["Invocation"]


class ContentWriter(Protocol):
    """The process that an invocation writes to."""

    limits: Limits
    settings: Settings

    def write(self, body: b.Body) -> Coroutine[Any, Any, object]:
        """Write content."""
        ...


class Invocation:
    """An invocation under way. Set ``result`` to its result; its duration is monotonic."""

    def __init__(self, process: ContentWriter, trigger: str, payload: Any) -> None:
        self.trigger = trigger
        self.payload = payload
        self.result: Any = None
        self._process = process
        self._began = 0

    async def begin(self) -> None:
        """Write the trigger and the start."""
        await self._process.write(b.InvocationTriggered(self.trigger, dump(self.payload, self._process.limits)))
        await self._process.write(b.InvocationStarted())
        self._began = time.monotonic_ns()

    async def end(self, outcome: str, error: BaseException | None = None) -> None:
        """Write the result."""
        text = None if error is None else error_line(error, self._process.settings)
        duration_us = (time.monotonic_ns() - self._began) // 1_000
        result = dump(self.result, self._process.limits)
        await self._process.write(b.InvocationEnded(outcome, duration_us, result, text))
