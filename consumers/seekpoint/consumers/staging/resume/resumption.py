"""What already arrived: the tail of the target, read by whoever goes on after a crash.

Between one partition of the source and one of the target there is a lane. An idempotent producer keeps a lane's order
and leaves no gap in it, so the newest offset found in it says that everything before it arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from seekpoint.consumers.staging.copy.headers import Origin

__all__ = ["Delivered", "stand_still"]


@dataclass(slots=True)
class Delivered:
    """The newest offset of each lane, and the keys of the seeded entries that are there."""

    job: str
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    seeded: set[bytes] = field(default_factory=set)
    records: int = 0

    def add(self, messages: Iterable[Any]) -> None:
        """Look at records of the target."""
        for message in messages:
            origin = Origin.of(message.headers())
            if origin is None or origin.job != self.job:
                continue
            self.records += 1
            if origin.seeded:
                self.seeded.add(message.key() or b"")
                continue
            lane = (origin.partition, message.partition())
            self.lanes[lane] = max(origin.offset, self.lanes.get(lane, -1))

    def has(self, partition: int, target_partition: int, offset: int) -> bool:
        """Whether this record of the source is in that partition of the target."""
        return offset <= self.lanes.get((partition, target_partition), -1)


def stand_still(ends: Callable[[], Mapping[int, int]], wait: Callable[[], None], looks_max: int = 30) -> dict[int, int]:
    """Where the target ends, once that did not change over one ``wait``; after ``looks_max`` whatever it is then.

    What a killed replay had handed to the network may still arrive for a moment. Others may write there for ever.
    """
    before = dict(ends())
    for _ in range(looks_max):
        wait()
        after = dict(ends())
        if after == before:
            break
        before = after
    return before
