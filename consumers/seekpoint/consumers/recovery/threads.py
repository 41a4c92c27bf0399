"""An executor for blocking work that refuses work after it was closed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from seekpoint.schemas.errors import HandleClosed

T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """An executor that may be closed while it is used. ``submit`` raises ``HandleClosed`` afterwards."""

    _is_closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` in a thread."""
        if self._is_closed:
            raise HandleClosed("the node or the recovery was closed", hint="use one that is open")
        return super().submit(fn, *args, **kwargs)

    def close(self) -> None:
        """Accept no more work, and do not wait. Accepted work still runs: cancelling it would cancel its caller."""
        self._is_closed = True
        self.shutdown(wait=False)
