"""A follower of one submitted run. It folds the run's records as they arrive, so that the result takes no recovery."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from seekpoint.producers.runs.run_outcomes import is_over
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.state.process_state import State

if TYPE_CHECKING:
    from seekpoint.producers.tail.followed_values import ValueFollower


class RunFollower:
    """Follows one process until its run is over, or until ``release``. Make it before the submission is sent."""

    def __init__(self, processes: ValueFollower, process_id: str) -> None:
        self.finished: State | None = None
        """The last state of the process, once it has finished."""
        self._processes = processes
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        self._followed = processes.begin(process_id, self._look)

    def release(self) -> None:
        """Stop following. Any thread may call it, also after the client was closed."""
        if not self._is_ended:
            with suppress(RuntimeError):  # the loop is closed, and so is the client
                self._loop.call_soon_threadsafe(self._end)

    def _look(self) -> None:
        try:
            now = self._followed.peek()
        except SeekpointError:
            return self._end()  # who asks for the result recovers the process, which raises the error
        if now is not None and is_over(now):
            if now.finished:  # a run that failed may be redriven
                self.finished = now.snapshot()
            self._end()
        return None

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._processes.end(self._followed, self._look)
