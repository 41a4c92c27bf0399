"""The wall clock, for the timestamps of entries. They are information only: no decision depends on them."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_us() -> int:
    """Return the present time in microseconds since 1970."""
    return time.time_ns() // 1_000


def iso_time(us: int) -> str:
    """Return microseconds since 1970 as ISO 8601 in UTC; the number itself if it is beyond the calendar.

    >>> iso_time(1_790_000_000_500_000), iso_time(2**62)
    ('2026-09-21T14:13:20+00:00', '4611686018427387904')
    """
    try:
        return datetime.fromtimestamp(us / 1_000_000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(us)
