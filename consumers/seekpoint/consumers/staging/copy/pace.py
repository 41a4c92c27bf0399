"""The pace of a replay: original timing times a speed, a fixed rate, or as fast as possible.

All due times count from one anchor, so they do not drift: a late record does not delay later ones.
"""

from __future__ import annotations

import math
from typing import Any

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

_RATIO = 1.02
"""A bucket of the histogram is two percent wide."""
_SMALLEST_S = 1e-6


class Pace(FrozenStruct, frozen=True, kw_only=True):
    """A speed (1 is the original timing, 2 twice as fast), a rate in records per second, or neither: no limit."""

    speed: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.speed is not None and self.rate is not None:
            raise InvalidSetting("a replay has a speed or a rate, not both", hint="leave one of them out")
        for name, value in (("speed", self.speed), ("rate", self.rate)):
            if value is not None and not 0 < value < math.inf:
                raise InvalidSetting(f"{name} must be a number above 0", setting=name, value=value)

    @property
    def is_paced(self) -> bool:
        """Whether records wait until they are due."""
        return self.speed is not None or self.rate is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"speed": self.speed, "rate": self.rate}


class DueTimes:
    """The due times of records, in seconds of the caller's clock.

    >>> due_times = DueTimes(Pace(speed=2.0))
    >>> [due_times.due(10.0, stamp) for stamp in (5_000, 6_000, 4_000, 9_000)]
    [10.0, 10.5, 10.5, 12.0]
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._anchor: float | None = None
        self._first_ms = self._newest_ms = 0
        self._count = 0

    def due(self, now: float, timestamp_ms: int) -> float:
        """Return when the next record is due; the first is the anchor. No record is due before an earlier one."""
        if self._anchor is None:
            self._anchor, self._first_ms, self._newest_ms = now, timestamp_ms, timestamp_ms
        if self._pace.rate is not None:
            due = self._anchor + self._count / self._pace.rate
            self._count += 1
            return due
        if self._pace.speed is None:
            return now
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        return self._anchor + (self._newest_ms - self._first_ms) / 1000 / self._pace.speed

    def shift(self, seconds: float) -> None:
        """Move the due times of all later records, after a pause."""
        if self._anchor is not None:
            self._anchor += seconds


class Lateness:
    """A histogram of how late records were sent, of constant size and exact to two percent."""

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.max_s = 0.0

    def add(self, late_s: float) -> None:
        """Add one record; a negative lateness counts as 0."""
        late_s = max(late_s, 0.0)
        self.count += 1
        self.max_s = max(self.max_s, late_s)
        bucket = 0 if late_s <= _SMALLEST_S else math.ceil(math.log(late_s / _SMALLEST_S, _RATIO))
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentile(self, percent: float) -> float:
        """Return the lateness in seconds that ``percent`` of the records do not exceed; 0 without records."""
        wanted, seen = math.ceil(self.count * percent / 100), 0
        for bucket, count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return min(self.max_s, _SMALLEST_S * _RATIO**bucket)
        return 0.0

    def to_dict(self) -> dict[str, float]:
        """Return median, 99th percentile and maximum in milliseconds."""
        figures = {"p50_ms": self.percentile(50), "p99_ms": self.percentile(99), "max_ms": self.max_s}
        return {name: round(value * 1000, 3) for name, value in figures.items()}
