"""Times on the command line."""

from __future__ import annotations

import re
import time
from datetime import datetime
from math import isfinite, nan

import typer

_AGO = re.compile(r"(\d{1,9})(s|min|m|h|d)( ago)?")
_SECONDS_MAX = 253_402_300_800
"""The year 10000: milliseconds, given for seconds, lie behind it."""
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def since_us(text: str | None) -> int | None:
    """Return the moment of an option ``--since`` in microseconds since 1970. Raises ``BadParameter``.

    >>> since_us("1970-01-01T01:00:00+00:00"), since_us("0.5"), since_us(None)
    (3600000000, 500000, None)
    """
    if text is None:
        return None
    moment = parse_time(text, "--since")
    return round((moment if isinstance(moment, float) else moment.timestamp()) * 1_000_000)


def parse_time(text: str, option: str = "--at-time") -> datetime | float:
    """Parse so long ago, an ISO 8601 date with or without a time, or seconds since 1970. Raises ``BadParameter``.

    A date or time without a zone is local.

    >>> parse_time("1790000000.5"), parse_time("2026-11-22T00:00:00Z").isoformat()
    (1790000000.5, '2026-11-22T00:00:00+00:00')
    >>> round(time.time() - parse_time("90m"))
    5400
    """
    if (ago := _AGO.fullmatch(text)) is not None:
        return time.time() - int(ago[1]) * _UNITS_S[ago[2]]
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if abs(seconds) < _SECONDS_MAX:
        return seconds
    if isfinite(seconds):
        raise typer.BadParameter(f"{text} is out of range; give seconds since 1970", param_hint=option)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        known = "so long ago (30s, 90m, 2h, 7d), a date, 2026-11-22T14:30:00+01:00, or seconds since 1970"
        raise typer.BadParameter(f"{text!r} is not a time; give {known}", param_hint=option) from None
