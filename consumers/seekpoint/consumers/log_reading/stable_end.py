"""The stable end: wait for another producer's open transaction, which hides the records behind its first one.

Seekpoint writes no transactions into the journal's topic. A transaction of another producer hides the entries of all
processes behind its first record until it ends or the broker aborts it.
"""

from __future__ import annotations

import time

from seekpoint.schemas.errors import TransactionOpen
from seekpoint.schemas.log.log_ports import Extent, LogReader

_POLL_S, _POLL_MAX_S = 0.002, 0.05
_AGAIN_S = 0.25
"""The wait for a transaction that an earlier call waited for without success: it may be about to end."""


class StableEnds:
    """The ends of a log's partitions. Thread safe; blocks.

    If a call waited in vain for a transaction, later calls wait for it only a moment. A transaction that never ends
    therefore delays one caller, not every caller in turn.
    """

    def __init__(self, log: LogReader, wait_s: float) -> None:
        self._log = log
        self._wait_s = wait_s
        self._hidden_since: dict[int, tuple[int, float]] = {}
        """By partition: the first hidden offset, and when it was first seen."""

    def extent(self, partition: int, stop: int | None = None) -> Extent:
        """Return where the partition begins and ends, once all that is written by now is readable, or time is up.

        With ``stop``, hidden offsets from ``stop`` on do not count.
        """
        low, high, end = self._log.extent(partition)
        extent = Extent(low, high, end if stop is None else max(high, min(end, stop)))
        target, began, pause_s = extent.end, time.monotonic(), _POLL_S
        while extent.high < target and time.monotonic() < self._deadline(partition, extent.high, began):
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_MAX_S)
            low, high = self._log.watermarks(partition)
            extent = Extent(low, high, max(target, high))
        return extent

    def _deadline(self, partition: int, hidden_from: int, began: float) -> float:
        """Return when to give up. An end that has not moved is held by a transaction that was waited for before."""
        offset, since = self._hidden_since.get(partition, (-1, began))
        if offset != hidden_from:
            since = time.monotonic()
            self._hidden_since[partition] = hidden_from, since
        return max(since + self._wait_s, began + _AGAIN_S) if since < began else began + self._wait_s


def hidden_note(extent: Extent) -> str:
    """Return the note of a report whose end cannot be read."""
    return f"an open transaction hides {extent.hidden} offsets from {extent.high} on: the state may be an old one"


def hidden_end_error(extent: Extent, partition: int, process_id: str | None = None) -> TransactionOpen:
    """Return the error for a caller that needs the hidden entries."""
    return TransactionOpen(
        "an open transaction of another producer hides the end of the partition",
        partition=partition, offset=extent.high, end=extent.end, process_id=process_id,
    )  # fmt: skip


def hidden_submissions(log: LogReader, partition: int) -> TransactionOpen | None:
    """Return the error that names an open transaction which hides submissions; None if there is none. Blocks."""
    extent_of = getattr(log, "extent_of", None)  # only Kafka has transactions
    extent = None if extent_of is None else extent_of("inbox", partition)
    if extent is None or not extent.hidden:
        return None
    return TransactionOpen(
        "an open transaction of another producer hides submissions in the inbox",
        topic=f"{log.name}.inbox", partition=partition, offset=extent.high, end=extent.end,
    )  # fmt: skip
