"""The tail of a log: one reader that follows several partitions as they grow.

A tail delivers new records with low latency and does not explain errors. If it cannot read on, it marks the partition
as ``broken``; the caller then calls ``LogReader.read``, which raises the typed error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from seekpoint.schemas.log.log_ports import Landmark, Record


class TailBatch(NamedTuple):
    """New records of one partition, contiguous with the batch before. ``record(i)`` makes the record of ``keys[i]``.

    Records are made on demand because most are of no interest to the caller: a key costs a tenth of a record.
    """

    partition: int
    keys: Sequence[bytes | None]
    record: Callable[[int], Record]
    next_offset: int
    """The offset below which every record was delivered; offsets may have holes."""
    first: Landmark | None = None
    last: Landmark | None = None
    broken: bool = False
    """Whether reading of this partition stopped: no more records follow until ``begin`` is called again."""


class Tail(Protocol):
    """A reader that follows partitions. Use it from one thread at a time."""

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on, even if it is already followed."""

    def end(self, partition: int) -> None:
        """Stop following ``partition``. ``poll`` may still return records that were already fetched."""

    def poll(self, timeout_s: float) -> Sequence[TailBatch]:
        """Return new batches, in order within a partition; wait up to ``timeout_s``. Raises no ``SeekpointError``."""

    def close(self) -> None:
        """Close the connections. Idempotent."""
