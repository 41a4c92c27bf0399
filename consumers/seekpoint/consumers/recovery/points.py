"""Points in a process's past: by seq, by offset or by time. ``Recoverer`` resolves them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from seekpoint.schemas.errors import UnknownPoint
from seekpoint.schemas.frozen_struct import FrozenStruct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Point(FrozenStruct, frozen=True):
    """A seq, an offset or a time; without any of them, the present. Raises ``UnknownPoint`` for an impossible one."""

    seq: int | None = None
    """Right after the entry with this seq was applied."""
    offset: int | None = None
    """As of this offset of the process's partition, the entry there included."""
    time: datetime | float | None = None
    """Before the first entry that is not older than this: an aware datetime, or seconds since 1970."""

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.seq, self.offset, self.time)) > 1:
            raise UnknownPoint("more than one point was given", hint="give at_seq, at_offset or at_time")
        for name, value, least in (("seq", self.seq, 1), ("offset", self.offset, 0)):
            if value is not None and (type(value) is not int or value < least):
                raise UnknownPoint(f"at_{name} must be an integer of at least {least}", found=repr(value))
        if self.time is not None:
            timestamp_ms(self.time)


NOW = Point()


def timestamp_ms(time: datetime | float) -> int:
    """Return the first millisecond since 1970 that is not before ``time``.

    >>> timestamp_ms(1.0001)
    1001
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise UnknownPoint("at_time has no time zone", found=time, hint="use an aware datetime: .astimezone()")
        micros = (time - _EPOCH) // timedelta(microseconds=1)
    elif isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time):
        raise UnknownPoint("at_time must be an aware datetime or seconds since 1970", found=repr(time))
    else:
        micros = round(time * 1_000_000)
    return -(-micros // 1000)
