"""Keep the board up to date while somebody looks: one reader for all viewers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from seekpoint.console.services.histories.view_pages import ViewGone
from seekpoint.console.web.data.board import Board, ListSource
from seekpoint.console.web.data.log_source import LogSource
from seekpoint.console.web.data.poller import Poller
from seekpoint.console.web.data.view_source import ViewSource
from seekpoint.console.web.failures import log_unexpected

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget

_POLL_INTERVAL_S = 1.0
_VIEW_RETRY_S = 2.0
_SLOW_S, _SLOW_VIEW_RETRY_S = 0.2, 15.0
"""A Redis that does not answer delays what is read from the log, so it is asked less often."""
_WORKERS_INTERVAL_S = 10.0


class BoardPoller(Poller):
    """Reads the processes of a journal once a second while somebody looks."""

    def __init__(
        self,
        target: CommandTarget,
        threads: ThreadPoolExecutor,
        *,
        interval_s: float = _POLL_INTERVAL_S,
    ) -> None:
        super().__init__(threads, interval_s)
        self.board = Board(target.settings.journal)
        self._target = target
        self._source: ViewSource | LogSource | None = None
        self._view_retry_at = 0.0
        self._workers_read_at = 0.0

    async def current(self, timeout_s: float = 5.0) -> Board:
        """Return the board, read at most an interval ago; or while it loads, or if no read ends in time, as it is."""
        await self.wait_until_fresh(timeout_s)
        return self.board

    def version(self) -> object:
        """Return the revision of the board, and its source."""
        return self.board.revision, self.board.source

    @property
    def is_loading(self) -> bool:
        """Whether the first read has not ended."""
        return self.board.source.loading

    def read(self) -> None:
        """Read what is new. Blocks. An error is shown to viewers, and the next read tries again."""
        from seekpoint.schemas.errors import SeekpointError

        try:
            self._read_source()
            self._read_workers()
        except SeekpointError as exc:
            self._forget()
            problem = self._target.scrub(f"{exc.message}; {exc.hint}")
            self.board.source = msgspec.structs.replace(self.board.source, problem=problem)
        except Exception as exc:  # a reader that dies would leave all pages as they are, without a word
            log_unexpected(exc, self._target.scrub)
            self._forget()
            problem = f"unexpected {type(exc).__name__}, see the console's log"
            self.board.source = msgspec.structs.replace(self.board.source, problem=problem)

    def _read_source(self) -> None:
        now = time.monotonic()
        wants_view = not isinstance(self._source, ViewSource) and now >= self._view_retry_at
        why = self.board.source.why
        if wants_view or isinstance(self._source, ViewSource):
            try:
                self._read_view()
            except ViewGone as gone:
                is_slow = time.monotonic() - now > _SLOW_S
                self._view_retry_at = time.monotonic() + (_SLOW_VIEW_RETRY_S if is_slow else _VIEW_RETRY_S)
                why = gone.why
                if isinstance(self._source, ViewSource):
                    self._source = None
            else:
                return
        if self._source is None:
            fresh = LogSource(self._target)
            try:
                self.board.replace(fresh.load())
            except BaseException:
                fresh.close()
                raise
            self._source = fresh
        else:
            self.board.update(self._source.changed())
        self.board.behind = {}
        self.board.source = ListSource(name="log", why=why)

    def _read_view(self) -> None:
        if isinstance(self._source, ViewSource):
            source = self._source
            self.board.update(source.changed())
        else:
            source = ViewSource(self._target)
            self.board.replace(source.load())
            self._forget()
            self._source = source
        self.board.behind = source.behind
        self.board.source = ListSource(name="view", behind=sum(source.behind.values()))

    def _forget(self) -> None:
        """Give up what was read before: the next read reads everything anew."""
        if isinstance(self._source, LogSource):
            self._source.close()
        self._source = None

    async def stop(self) -> None:
        """End the polling, and forget what was read."""
        await super().stop()
        self._forget()

    def _read_workers(self) -> None:
        from seekpoint.consumers.heartbeats.worker_code import worker_code

        if self.board.code is None or time.monotonic() - self._workers_read_at > _WORKERS_INTERVAL_S:
            self.board.code = worker_code(self._target.log)
            self._workers_read_at = time.monotonic()
