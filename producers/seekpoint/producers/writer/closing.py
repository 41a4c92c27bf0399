"""A sequence of closing steps: whatever one of them raises, the next one runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any


class Closing:
    """The closing steps that ``steps()`` returns, run once, in order, in a task of their own. A step may be async.

    ``run`` returns when all steps are over, even if it is cancelled meanwhile. It then raises the cancellation, else
    the error of the only failed step, else an ``ExceptionGroup`` of several errors. A second call during the first does
    the same; a later one returns at once.
    """

    def __init__(self, steps: Callable[[], Sequence[Callable[[], Any]]]) -> None:
        self._steps = steps
        self._task: asyncio.Task[list[BaseException]] | None = None

    async def run(self) -> None:
        """Run every step, then raise what failed."""
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
            except BaseException as exc:  # an interrupt, too, is raised once everything is closed
                failures.append(exc)
        return failures


def _raise(failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup("several things could not be closed", failures)
