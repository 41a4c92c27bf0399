"""Whether a partition can be read to its end: a transaction of another producer that is open hides what lies behind it.

Seekpoint writes no transactions into the journal's topic. A foreign one holds back everybody's entries behind its first
record, those of other processes included, until it ends or the broker times it out.
"""

from __future__ import annotations

import time
from typing import Any

from seekpoint.schemas.errors import TransactionOpen
from seekpoint.schemas.log import Extent, LogReader

__all__ = ["hidden_note", "refusal", "stable_extent"]

_POLL_S, _POLL_MAX_S = 0.002, 0.05


def stable_extent(log: LogReader, partition: int, wait_s: float, stop: int | None = None) -> Extent:
    """Where the partition begins and ends. Waits ``wait_s`` at most until all that was written by now can be read.

    With ``stop`` only what lies below it is of interest: nothing behind it counts as hidden.
    """
    low, high, end = log.extent(partition)
    extent = Extent(low, high, end if stop is None else max(high, min(end, stop)))
    wanted, deadline, pause_s = extent.end, time.monotonic() + wait_s, _POLL_S
    while extent.high < wanted and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_MAX_S)
        low, high = log.watermarks(partition)
        extent = Extent(low, high, max(wanted, high))
    return extent


def hidden_note(extent: Extent) -> str:
    """What a report says of an end that cannot be read."""
    return f"an open transaction hides {extent.hidden} offsets from {extent.high} on: the state may be an old one"


def refusal(extent: Extent, partition: int, **facts: Any) -> TransactionOpen:
    """The error of whoever needs what is hidden."""
    return TransactionOpen(
        "an open transaction of another producer hides the end of the partition",
        partition=partition, offset=extent.high, end=extent.end, **facts,
    )  # fmt: skip
