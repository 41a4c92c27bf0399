"""Read offset ranges to their end, unless the source stops answering."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from seekpoint.consumers.staging.replay_ports import OffsetRange, RangeReader, ReplayMessage, ReplaySource
from seekpoint.schemas.errors import SeekpointError

_BATCH_RECORDS = 2_000
_TAKE_S = 0.1


def read_to_end(
    reader: RangeReader, silence_max_s: float, timeout: SeekpointError
) -> Iterator[Sequence[ReplayMessage]]:
    """Yield all records in batches; close ``reader``. Raises ``timeout`` after ``silence_max_s`` without records."""
    last_read_at = time.monotonic()
    try:
        while True:
            messages = reader.take(_BATCH_RECORDS, _TAKE_S)
            yield messages
            if not reader.unfinished():
                return
            last_read_at = time.monotonic() if messages else last_read_at
            if time.monotonic() - last_read_at > silence_max_s:
                raise timeout
    finally:
        reader.close()


def read_between(
    source: ReplaySource,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    silence_max_s: float,
    timeout: SeekpointError,
) -> Iterator[Sequence[ReplayMessage]]:
    """Yield all records of the partitions in ``ends``, from ``starts`` (default 0) on. Raises as ``read_to_end``."""
    ranges = [OffsetRange(p, starts.get(p, 0), end) for p, end in sorted(ends.items()) if starts.get(p, 0) < end]
    return read_to_end(source.read(ranges), silence_max_s, timeout)


def end_offsets(source: ReplaySource) -> dict[int, int]:
    """Return the next offset of each partition."""
    return {partition: mark.high for partition, mark in source.watermarks().items()}
