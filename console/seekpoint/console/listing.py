"""The list of processes as the view has it: heads only, no journal is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seekpoint.console.target import Target

if TYPE_CHECKING:
    from seekpoint.consumers.view_store import Summary, ViewBrowser

__all__ = ["from_view"]

_PAGE = 500


def from_view(target: Target) -> tuple[list[dict[str, Any]] | None, str]:
    """Every process by the view; None, and why, where a partition has none that could be used."""
    from seekpoint.console.states import summary_facts
    from seekpoint.schemas.errors import JournalMismatch, ViewRefused, ViewUnavailable

    if target.view is None:
        return None, "the settings name no Redis"
    try:
        behind, problem = _behind(target, target.view)
        if problem:
            return None, problem
        found, missing = _summaries(target.view)
    except (JournalMismatch, ViewRefused, ViewUnavailable) as exc:
        return None, exc.message
    if missing:
        return None, "the view is being rebuilt"
    return [summary_facts(one, behind[one.partition]) for one in found], ""


def _behind(target: Target, view: ViewBrowser) -> tuple[dict[int, int], str]:
    """How many offsets each partition's view is behind; or what is wrong with one of them."""
    from seekpoint.consumers.bases import view_problem

    found: dict[int, int] = {}
    for partition in range(target.log.partitions):
        meta = view.meta(partition)
        marks = target.log.watermarks(partition)  # after the view: what it has applied lies below the end
        problem = view_problem(meta, target.log.topic_id, marks)
        if problem or meta is None or meta.applied is None:
            hint = "; a projector keeps it: seekpoint serve projector" if meta is None else ""
            return {}, f"the view of partition {partition} cannot be used: {problem}{hint}"
        found[partition] = marks.high - 1 - meta.applied
    return found, ""


def _summaries(view: ViewBrowser) -> tuple[list[Summary], bool]:
    """All there are, and whether a partition of the view went away meanwhile."""
    import asyncio

    from seekpoint.consumers.view import View

    async def collect() -> tuple[list[Summary], bool]:
        listed: list[Summary] = []
        cursor = ""
        async with View(view) as browser:
            while True:
                page = await browser.list(limit=_PAGE, cursor=cursor)
                listed += page.processes
                cursor = page.cursor
                if page.missing or not cursor:
                    return listed, bool(page.missing)

    return asyncio.run(collect())
