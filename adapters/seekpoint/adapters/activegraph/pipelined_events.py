"""Events that are on their way to a journal: an append returns before its event is acknowledged."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from seekpoint.errors import HandleClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from seekpoint.adapters.activegraph.run_content import Row
    from seekpoint.adapters.activegraph.run_process import RunProcess

_CHARACTERS_MAX = 8_000_000
_BATCH_MAX = 500


class PipelinedEvents:
    """The events of one writer that are not acknowledged yet: at most ``events_max``, and 8 million characters.

    All that wait while a record is on its way share the next one. The events are written in their order: after a
    failure none of the later ones is written, and each call raises that failure.
    """

    def __init__(
        self, log: RunProcess, loop: asyncio.AbstractEventLoop, events_max: int,
        note: Callable[[PipelinedEvents, bool], None],
    ) -> None:  # fmt: skip
        self._log = log
        self._loop = loop
        self._events_max = events_max
        self._note = note
        """Is told when there are events that are not acknowledged, and when there are none any more."""
        self._changed = threading.Condition()
        self._waiting: deque[Row] = deque()
        self._ids: set[str] = set()
        """Of the events that are not acknowledged."""
        self._characters = 0
        self._is_writing = False
        self._error: BaseException | None = None

    def has(self, event_id: str) -> bool:
        """Return whether an event with this id is on its way."""
        return event_id in self._ids

    def append(self, row: Row) -> None:
        """Take an event. Waits while too many are on their way. Raises what a write before it raised."""
        with self._changed:
            while self._error is None and self._is_full(row):
                self._changed.wait()
            self._raise_error()
            self._waiting.append(row)
            self._ids.add(row["id"])
            self._characters += len(row["payload"])
            if self._is_writing:
                return
            if self._loop.is_closed():
                self._error = _closed()
                raise self._error
            self._is_writing = True
            self._note(self, True)
            asyncio.run_coroutine_threadsafe(self._write(), self._loop)

    def flush(self) -> None:
        """Return once all events are acknowledged. Raises the first failure."""
        self.wait()
        with self._changed:
            self._raise_error()

    def wait(self) -> None:
        """Return once all events are acknowledged, or a write has failed."""
        with self._changed:
            while self._is_writing and self._error is None:
                self._changed.wait()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _is_full(self, row: Row) -> bool:
        is_wide = bool(self._ids) and self._characters + len(row["payload"]) > _CHARACTERS_MAX
        return len(self._ids) >= self._events_max or is_wide

    async def _write(self) -> None:
        """Write what waits, until nothing does."""
        while batch := self._next_batch():
            try:
                await self._log.append(batch)
            except BaseException as exc:
                self._fail(exc)
                if not isinstance(exc, Exception):
                    raise
                return
            with self._changed:
                self._ids.difference_update(row["id"] for row in batch)
                self._characters -= sum(len(row["payload"]) for row in batch)
                self._changed.notify_all()

    def _next_batch(self) -> list[Row]:
        with self._changed:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH_MAX, len(self._waiting)))]
            if not batch:
                self._is_writing = False
                self._note(self, False)
                self._changed.notify_all()
            return batch

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = _closed() if isinstance(error, asyncio.CancelledError) else error
            self._changed.notify_all()


def _closed() -> HandleClosed:
    return HandleClosed(
        "the node was closed before all events were acknowledged: the newest ones are lost",
        hint="flush or close the SeekpointRuns before the node; then load the run again",
    )  # fmt: skip
