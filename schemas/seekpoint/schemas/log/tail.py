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
    """Everything below it has come; offsets may have holes."""
    first: Landmark | None = None
    last: Landmark | None = None
    broken: bool = False
    """Nothing more comes of this partition until it is begun again."""


class Tail(Protocol):
    """Follows partitions. For one thread at a time."""

    def begin(self, partition: int, position: int) -> None:
        """Follow ``partition`` from ``position`` on, whether it was followed or not."""

    def end(self, partition: int) -> None:
        """Follow it no more. What had come of it may still be polled."""

    def poll(self, timeout_s: float) -> Sequence[TailBatch]:
        """What has come, in order within a partition; waits up to ``timeout_s`` for something. Never raises ours."""

    def close(self) -> None:
        """Give up connections. Idempotent."""
