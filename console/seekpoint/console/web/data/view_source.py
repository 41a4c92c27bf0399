"""Summaries of processes from the view: all of them once, then those that went on since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.services.histories.view_pages import (
    ViewGone,
    by_id,
    newest_pages,
    no_view,
    offsets_behind,
    view_of,
)

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.view.process_summary import Summary


class ViewSource:
    """Reads the view of a journal. Every call blocks, and raises ``ViewGone`` if there is no usable view."""

    name = "view"

    def __init__(self, target: CommandTarget) -> None:
        self._target = target
        self._newest: dict[int, int] = {}
        self._tokens: dict[int, str] = {}
        self._seen: dict[int, tuple[int, int]] = {}
        self.behind: dict[int, int] = {}
        """By partition: how many offsets the view has not applied."""

    def load(self) -> dict[str, Summary]:
        """Return all processes by id."""
        self.behind = offsets_behind(self._target)
        view = view_of(self._target)
        for partition in self.behind:
            self._tokens[partition] = self._token(partition)
        found = {one.process_id: one for one in by_id(view, open_only=False)}
        for one in found.values():
            self._newest[one.partition] = max(self._newest.get(one.partition, -1), one.offset)
        return found

    def changed(self) -> dict[str, Summary]:
        """Return the processes with an entry that the view applied since the last call.

        A partition whose log has not grown and whose view is complete costs one question about the log's end.
        """
        view = view_of(self._target)
        found: dict[str, Summary] = {}
        moved = self._moved()
        if not moved:
            return found
        self.behind = offsets_behind(self._target)
        for partition in moved:
            if self._token(partition) != self._tokens.get(partition):
                raise ViewGone("the view was rebuilt")
            above = self._newest.get(partition, -1)
            for page in newest_pages(view, partition, above):
                for one in page:
                    found.setdefault(one.process_id, one)
                    self._newest[partition] = max(self._newest.get(partition, -1), one.offset)
        return found

    def _moved(self) -> list[int]:
        """Return the partitions whose log grew, or whose view is still behind."""
        moved = []
        for partition in range(self._target.log.partitions):
            high = self._target.log.watermarks(partition).high
            if self._seen.get(partition) != (high, 0):
                moved.append(partition)
                self._seen[partition] = (high, self.behind.get(partition, 0))
        return moved

    def _token(self, partition: int) -> str:
        from seekpoint.schemas.errors import JournalMismatch, ViewRefused, ViewUnavailable

        try:
            meta = view_of(self._target).meta(partition)
        except (JournalMismatch, ViewRefused, ViewUnavailable) as exc:
            raise ViewGone(exc.message) from exc
        if meta is None:
            raise ViewGone(no_view(self._target, partition))
        return meta.token
