"""Times on the command line."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    pass

__all__ = ["parse_time"]


def parse_time(text: str, option: str = "--at-time") -> datetime | float:
    """Parse seconds since 1970, or an ISO 8601 time; without a zone it is local time.

    >>> parse_time("1790000000.5"), parse_time("2026-11-22T00:00:00Z").isoformat()
    (1790000000.5, '2026-11-22T00:00:00+00:00')
    """
    from math import isfinite

    try:
        seconds = float(text)
        if isfinite(seconds):
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        example = "2026-11-22T14:30:00+01:00, or 1790000000"
        raise typer.BadParameter(f"{text!r} is not a time: {example}", param_hint=option) from None
