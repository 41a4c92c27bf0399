"""Suggest process ids that are similar to a mistyped one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_store import ViewBrowser
    from seekpoint.schemas.errors import UnknownProcess

__all__ = ["with_similar_ids"]

_PAGE_SIZE = 500


def with_similar_ids(target: CommandTarget, error: UnknownProcess, hint: str) -> UnknownProcess:
    """Return ``error`` with ``hint`` and with similar ids from the first page of the view."""
    from difflib import get_close_matches

    from seekpoint.schemas.errors import UnknownProcess

    alike = get_close_matches(error.process_id or "", _first_ids(target))
    suggestion = f"did you mean {', '.join(alike)}?; " if alike else ""
    return UnknownProcess(error.message, hint=f"{suggestion}{hint}; list processes: seekpoint ps", **error.facts)


def _first_ids(target: CommandTarget) -> list[str]:
    """Return the ids on the first page of the view, or none if it cannot be read."""
    import asyncio

    from seekpoint.consumers.view.view_browser import View
    from seekpoint.schemas.errors import SeekpointError

    async def collect(view: ViewBrowser) -> list[str]:
        async with View(view) as browser:
            return [one.process_id for one in (await browser.list(limit=_PAGE_SIZE)).processes]

    try:
        return [] if target.view is None else asyncio.run(collect(target.view))
    except SeekpointError:
        return []
