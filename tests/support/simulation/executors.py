"""Executors without threads: a task runs when it is submitted, or when its outcome is asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from random import Random
from typing import Any

__all__ = ["Inline", "Unhurried"]


class Inline(Executor):
    """Runs each task when it is submitted, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        outcome = _Task(partial(fn, *args, **kwargs))
        outcome.run()
        return outcome


class Unhurried(Executor):
    """Runs each task when it is submitted or when its outcome is waited for; ``random`` decides."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        outcome = _Task(partial(fn, *args, **kwargs))
        if self._random.random() < 0.5:
            outcome.run()
        return outcome


class _Task(Future[Any]):
    """A task that waits for ``run``, or for the first caller of ``result``."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> None:
        try:
            self.set_result(self._call())
        except Exception as exc:
            self.set_exception(exc)

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self.run()
        return super().result(timeout)
