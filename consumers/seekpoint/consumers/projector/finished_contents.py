"""When the content of finished processes is dropped: ``finished_content_s`` after their last entry.

The age of an entry is told by the log's own times, so no state holds a clock: what lies below the offset that the log
has for "so long ago" is old enough. First the gravestone replaces the checkpoint, then the view; whoever dies in
between leaves a view whose content is found and dropped again.
"""

from __future__ import annotations

from seekpoint.consumers.projector.projection_source import ProjectionSource

__all__ = ["FinishedContents"]

_PAGE = 500
"""Processes that the view looks at in one call."""
_LOOKS = 100
"""So often in the time that contents are kept, what is too old by now is looked for; at most once a second."""
_LOOK_INTERVAL_MIN_S, _LOOK_INTERVAL_MAX_S = 1.0, 60.0


class FinishedContents:
    """Finds the finished processes of one partition whose content is kept too long. One thread's."""

    def __init__(self, source: ProjectionSource, partition: int) -> None:
        self._source = source
        self._partition = partition
        self._next = 0
        """Below it, no finished process has content that is too old."""
        self._stop = 0
        """What lies below it is too old."""
        self._look_at_s = 0.0

    def begin(self) -> None:
        """Begin anew: another view."""
        self._next = self._stop = 0
        self._look_at_s = 0.0

    def too_old(self, token: str, position: int) -> list[bytes]:
        """Return some of those whose content is to be dropped; empty if there are none, or nobody looked yet."""
        if self._next >= self._stop and not self._is_due(position):
            return []
        page = self._source.view.finished(self._partition, token, self._next, self._stop, _PAGE)
        if page is None:
            return []
        keys, self._next = page
        return keys

    def _is_due(self, position: int) -> bool:
        """Ask the log, if it is time to, what is too old by now; whether there is more of it."""
        now_s, kept_s = self._source.clock(), self._source.finished_content_s
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + min(max(kept_s / _LOOKS, _LOOK_INTERVAL_MIN_S), _LOOK_INTERVAL_MAX_S)
        self._stop = max(self._next, self._too_old_below(position))
        return self._next < self._stop

    def _too_old_below(self, position: int) -> int:
        kept_s = self._source.finished_content_s
        if not kept_s:
            return position
        since_ms = int((self._source.wall_clock() - kept_s) * 1000)
        return min(self._source.log.offset_at(self._partition, max(since_ms, 0)), position)
