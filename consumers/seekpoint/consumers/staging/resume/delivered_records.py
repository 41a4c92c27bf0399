"""The records that a former run of a replay delivered after it last saved its progress.

An idempotent producer keeps the order between one partition of the source and one of the target, and leaves out no
record. So the newest source offset found for a pair of partitions proves that everything before it was delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.replay_ports import ReplayMessage


@dataclass(slots=True)
class DeliveredRecords:
    """The newest delivered source offset of each pair of partitions, and the keys of the delivered seeded entries."""

    job: str
    newest: dict[tuple[int, int], int] = field(default_factory=dict)
    seeded: set[bytes] = field(default_factory=set)

    def add(self, messages: Iterable[ReplayMessage]) -> None:
        """Add records that were read from the target."""
        for message in messages:
            origin = ReplayOrigin.from_headers(message.headers())
            if origin is None or origin.job != self.job:
                continue
            if origin.seeded:
                self.seeded.add(message.key() or b"")
                continue
            pair = (origin.partition, message.partition())
            self.newest[pair] = max(origin.offset, self.newest.get(pair, -1))

    def has(self, partition: int, target_partition: int, offset: int) -> bool:
        """Return whether this record of the source is in that partition of the target."""
        return offset <= self.newest.get((partition, target_partition), -1)


def wait_for_stable_ends(
    ends: Callable[[], Mapping[int, int]], wait: Callable[[], None], attempts_max: int = 30
) -> dict[int, int]:
    """Return the end offsets of the target once they did not change during one ``wait``, at the latest after
    ``attempts_max`` waits.

    Requests of a killed replay may still arrive for a moment. Others may write to the target all the time.
    """
    before = dict(ends())
    for _ in range(attempts_max):
        wait()
        after = dict(ends())
        if after == before:
            break
        before = after
    return before
