"""Whether a partition can be read to its end: a transaction of another producer that is open hides what lies behind it.

Seekpoint writes no transactions into the journal's topic. A foreign one holds back everybody's entries behind its first
record, those of other processes included, until it ends or the broker times it out.
"""

from __future__ import annotations

import time
from typing import Any

from seekpoint.schemas.errors import TransactionOpen
from seekpoint.schemas.log.log_ports import Extent, LogReader

__all__ = ["StableEnds", "hidden_note", "refusal"]

_POLL_S, _POLL_MAX_S = 0.002, 0.05
_AGAIN_S = 0.25
"""So long a transaction is waited for that was waited for in vain before: it may be about to end."""


class StableEnds:
    """The ends of a log's partitions. Thread safe; blocks.

    A transaction that was waited for in vain is waited for only a moment by those who ask later: one that never ends
    must not hold up everybody, one after the other.
    """

    def __init__(self, log: LogReader, wait_s: float) -> None:
        self._log = log
        self._wait_s = wait_s
        self._met: dict[int, tuple[int, float]] = {}
        """Partition -> the first offset that is hidden, and since when that is known."""

    def extent(self, partition: int, stop: int | None = None) -> Extent:
        """Where the partition begins and ends. Waits until all that was written by now can be read, or in vain.

        With ``stop`` only what lies below it is of interest: nothing behind it counts as hidden.
        """
        low, high, end = self._log.extent(partition)
        extent = Extent(low, high, end if stop is None else max(high, min(end, stop)))
        wanted, began, pause_s = extent.end, time.monotonic(), _POLL_S
        while extent.high < wanted and time.monotonic() < self._deadline(partition, extent.high, began):
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_MAX_S)
            low, high = self._log.watermarks(partition)
            extent = Extent(low, high, max(wanted, high))
        return extent

    def _deadline(self, partition: int, hidden_from: int, began: float) -> float:
        """A stable end that has not moved since is held by the transaction that was waited for already."""
        offset, since = self._met.get(partition, (-1, began))
        if offset != hidden_from:
            since = time.monotonic()
            self._met[partition] = hidden_from, since
        return max(since + self._wait_s, began + _AGAIN_S) if since < began else began + self._wait_s


def hidden_note(extent: Extent) -> str:
    """What a report says of an end that cannot be read."""
    return f"an open transaction hides {extent.hidden} offsets from {extent.high} on: the state may be an old one"


def refusal(extent: Extent, partition: int, **facts: Any) -> TransactionOpen:
    """The error of whoever needs what is hidden."""
    return TransactionOpen(
        "an open transaction of another producer hides the end of the partition",
        partition=partition, offset=extent.high, end=extent.end, **facts,
    )  # fmt: skip
