"""The wall clock, for ``ts``: information only, it decides nothing."""

from __future__ import annotations

import time

__all__ = ["now_us"]


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000
