"""Suggest process ids that are similar to a mistyped one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.services.arguments.completion import ids_in_view
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.schemas.errors import UnknownProcess

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
    from seekpoint.schemas.errors import SeekpointError

    try:
        return ids_in_view(target, "", _PAGE_SIZE)
    except SeekpointError:
        return []
