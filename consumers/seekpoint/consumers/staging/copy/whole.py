"""Stretches read to their end, unless the source falls silent."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from seekpoint.consumers.staging.replay_ports import Reading
from seekpoint.schemas.errors import SeekpointError

__all__ = ["whole"]

_BATCH_RECORDS = 2_000
_TAKE_S = 0.1


def whole(reading: Reading, silence_max_s: float, silent: SeekpointError) -> Iterator[Sequence[Any]]:
    """All records, in batches; ``reading`` is closed after them. Raises ``silent`` if nothing came for so long."""
    heard = time.monotonic()
    try:
        while True:
            messages = reading.take(_BATCH_RECORDS, _TAKE_S)
            yield messages
            if not reading.unfinished():
                return
            heard = time.monotonic() if messages else heard
            if time.monotonic() - heard > silence_max_s:
                raise silent
    finally:
        reading.close()
