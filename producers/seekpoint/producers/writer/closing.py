"""A sequence of closing steps that skips none: whatever one of them raises, the next one runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Closing"]


class Closing:
    """Runs what ``steps()`` gives once, in their order, in a task of its own; a step may be async or not.

    ``run`` returns when all of them are over, also where it is cancelled meanwhile, and then raises: the cancellation,
    else what the only failed step raised, else an ``ExceptionGroup`` of what several did. Another call during the
    first gets the same; a later one returns at once.
    """

    def __init__(self, steps: Callable[[], Sequence[Callable[[], Any]]]) -> None:
        self._steps = steps
        self._task: asyncio.Task[list[BaseException]] | None = None

    async def run(self) -> None:
        """Take every step, and raise what failed."""
        if self._task is not None and self._task.done():
            return
        if self._task is None:
            self._task = asyncio.create_task(self._all(), name="seekpoint-close")
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError as exc:
                cancelled = exc
        if cancelled is not None:
            raise cancelled
        _raise(self._task.result())

    async def _all(self) -> list[BaseException]:
        failures: list[BaseException] = []
        for step in self._steps():
            try:
                found = step()
                if inspect.isawaitable(found):
                    await found
            except BaseException as exc:  # an interrupt too is told once everything is closed
                failures.append(exc)
        return failures


def _raise(failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup("several things could not be closed", failures)
