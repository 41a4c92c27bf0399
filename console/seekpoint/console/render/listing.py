"""The list of processes as the view has it: heads only, no journal is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    import asyncio

    from seekpoint.consumers.view.view_browser import View
    from seekpoint.consumers.view.view_store import Summary, ViewBrowser
    from seekpoint.schemas.errors import UnknownProcess

__all__ = ["ViewGone", "from_view", "with_similar_ids"]

_PAGE = 500


class ViewGone(Exception):
    """There is no view of a partition that could be used, or not any more; ``why`` says so."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def from_view(target: CommandTarget) -> Iterator[dict[str, Any]]:
    """Every process by the view, in the order of ids, a page in memory at a time.

    Raises ``ViewGone`` where a partition has none that could be used: what came before it is whole up to its last id.
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


def with_similar_ids(target: CommandTarget, error: UnknownProcess, hint: str) -> UnknownProcess:
    """Return ``error`` with the ids that look like its own, where the view's first page has any, and with ``hint``."""
    from difflib import get_close_matches

    from seekpoint.schemas.errors import UnknownProcess

    alike = get_close_matches(error.process_id, _first_ids(target))
    meant = f"did you mean {', '.join(alike)}?; " if alike else ""
    return UnknownProcess(error.message, hint=f"{meant}{hint}; seekpoint ps lists what there is", **error.facts)


def _first_ids(target: CommandTarget) -> list[str]:
    """The ids on the view's first page; none where it cannot be read."""
    import asyncio

    from seekpoint.consumers.view.view_browser import View
    from seekpoint.schemas.errors import SeekpointError

    async def collect(view: ViewBrowser) -> list[str]:
        async with View(view) as browser:
            return [one.process_id for one in (await browser.list(limit=_PAGE)).processes]

    try:
        return [] if target.view is None else asyncio.run(collect(target.view))
    except SeekpointError:
        return []


def _behind(target: CommandTarget, view: ViewBrowser) -> dict[int, int]:
    """How many offsets each partition's view is behind."""
    from seekpoint.consumers.recovery.base_finder import view_problem

    found: dict[int, int] = {}
    for partition in range(target.log.partitions):
        meta = view.meta(partition)
        marks = target.log.watermarks(partition)  # after the view: what it has applied lies below the end
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
        page = runner.run(browser.list(limit=_PAGE, cursor=cursor))
        if page.missing:
            raise ViewGone("the view is being rebuilt")
        yield from page.processes
        cursor = page.cursor
        if not cursor:
            return
