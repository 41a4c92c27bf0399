"""The tail of a log: one reader that follows several partitions as they grow.

A tail is for speed: it says what came, as soon as it came. It explains nothing. Where it cannot go on it says that a
partition is ``broken``, and whoever follows asks ``LogReader.read`` what is wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from seekpoint.schemas.log.log_ports import Landmark, Record

__all__ = ["Tail", "TailBatch"]


class TailBatch(NamedTuple):
    """What came of one partition, right behind what came before. ``record(i)`` makes the record of ``keys[i]``.

    Most of it is of no interest to anybody: a key costs a tenth of a record.
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
