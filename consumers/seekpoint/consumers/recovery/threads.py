"""Threads for blocking work, which say it typed when there are none any more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from seekpoint.schemas.errors import HandleClosed

__all__ = ["Threads"]

T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """An executor that may be closed under its users: what they ask for afterwards is ``HandleClosed``."""

    _gone = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run it in a thread."""
        if self._gone:
            raise HandleClosed("the node or the recovery was closed", hint="use one that is open")
        return super().submit(fn, *args, **kwargs)

    def close(self) -> None:
        """Take nothing more, and do not wait. What was taken still runs: cancelling it would cancel who awaits it."""
        self._gone = True
        self.shutdown(wait=False)
