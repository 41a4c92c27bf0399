"""List processes from the view. Only summaries are read, and no journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    import asyncio

    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.consumers.view.view_browser import View
from seekpoint.consumers.view.view_store import ViewBrowser

__all__ = ["ViewGone", "from_view"]

_PAGE_SIZE = 500


class ViewGone(Exception):
    """A partition has no usable view, or its view became unusable. ``why`` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def from_view(target: CommandTarget) -> Iterator[dict[str, Any]]:
    """Yield every process from the view in the order of ids, with one page in memory at a time.

    Raises ``ViewGone`` if a partition has no usable view. Processes yielded before are complete up to their last id.
    """
    from seekpoint.console.render.states import summary_facts
    from seekpoint.schemas.errors import JournalMismatch, ViewRefused, ViewUnavailable

    if target.view is None:
        raise ViewGone("the settings name no Redis")
    try:
        behind = _behind(target, target.view)
        for one in _summaries(target.view):
            yield summary_facts(one, behind[one.partition])
    except (JournalMismatch, ViewRefused, ViewUnavailable) as exc:
        raise ViewGone(exc.message) from exc


def _behind(target: CommandTarget, view: ViewBrowser) -> dict[int, int]:
    """Return how many offsets the view of each partition is behind."""
    from seekpoint.consumers.recovery.base_finder import view_problem

    found: dict[int, int] = {}
    for partition in range(target.log.partitions):
        meta = view.meta(partition)
        marks = target.log.watermarks(
            partition
        )  # read after the view, so the end is at least what the view has applied
        problem = view_problem(meta, target.log.topic_id, marks)
        if problem or meta is None or meta.applied is None:
            hint = "; a projector keeps it: seekpoint serve projector" if meta is None else ""
            raise ViewGone(f"the view of partition {partition} cannot be used: {problem}{hint}")
        found[partition] = marks.high - 1 - meta.applied
    return found


def _summaries(view: ViewBrowser) -> Iterator[Summary]:
    import asyncio

    from seekpoint.consumers.view.view_browser import View

    browser = View(view)
    with asyncio.Runner() as runner:
        try:
            yield from _pages(browser, runner)
        finally:
            runner.run(browser.close())


def _pages(browser: View, runner: asyncio.Runner) -> Iterator[Summary]:
    cursor = ""
    while True:
        page = runner.run(browser.list(limit=_PAGE_SIZE, cursor=cursor))
        if page.missing:
            raise ViewGone("the view is being rebuilt")
        yield from page.processes
        cursor = page.cursor
        if not cursor:
            return
