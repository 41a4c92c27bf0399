"""Finds the finished processes whose content is dropped: ``finished_content_s`` after their last entry.

The timestamps of the log give an entry's age, so no state has a clock: entries below the offset of "so long ago" are
old enough. First the gravestone replaces the checkpoint, then the view drops the content. If the projector dies in
between, the next one finds the same content again.
"""

from __future__ import annotations

from seekpoint.consumers.projector.projection_source import ProjectionSource

_PAGE = 500
"""Processes that one call of the view examines."""
_CHECKS = 100
"""How often expired content is looked for within ``finished_content_s``; at most once a second."""
_CHECK_INTERVAL_MIN_S, _CHECK_INTERVAL_MAX_S = 1.0, 60.0


class FinishedContents:
    """Finds the finished processes of one partition whose content has expired. For one thread."""

    def __init__(self, source: ProjectionSource, partition: int) -> None:
        self._source = source
        self._partition = partition
        self._next = 0
        """Below this offset no finished process has expired content."""
        self._stop = 0
        """Content below this offset has expired."""
        self._check_at_s = 0.0

    def reset(self) -> None:
        """Start from offset 0, because the view may be another one."""
        self._next = self._stop = 0
        self._check_at_s = 0.0

    def expired(self, token: str, position: int) -> list[bytes]:
        """Return some processes whose content is to be dropped; none if there are none, or if no check is due."""
        if self._next >= self._stop and not self._is_due(position):
            return []
        page = self._source.view.finished(self._partition, token, self._next, self._stop, _PAGE)
        if page is None:
            return []
        keys, self._next = page
        return keys

    def _is_due(self, position: int) -> bool:
        """Ask the log which offset has expired, if a check is due; return whether content may have expired."""
        now_s, kept_s = self._source.clock(), self._source.finished_content_s
        if now_s < self._check_at_s:
            return False
        self._check_at_s = now_s + min(max(kept_s / _CHECKS, _CHECK_INTERVAL_MIN_S), _CHECK_INTERVAL_MAX_S)
        self._stop = max(self._next, self._expired_offset(position))
        return self._next < self._stop

    def _expired_offset(self, position: int) -> int:
        kept_s = self._source.finished_content_s
        if not kept_s:
            return position
        since_ms = int((self._source.wall_clock() - kept_s) * 1000)
        offset = self._source.log.offset_at(self._partition, max(since_ms, 0))
        if offset <= self._source.log.watermarks(self._partition).low:
            return 0  # the log is trimmed up to there: nothing tells how old the entries below are
        return min(offset, position)
