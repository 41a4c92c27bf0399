"""The group of projectors of a journal in a file: what ``KafkaGroup`` is on Kafka.

A partition may be given to another member before its former one has noticed. Nothing that the former one writes then
counts: the view's token and applied offset refuse its batches, and only who has the partition can write checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from seekpoint.consumers.log_reading.group_port import Fetched
from seekpoint.consumers.sqlite.sqlite_log import EPOCH, SqliteLog
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember

_TEAM = "projectors"


class SqliteProjectors:
    """A member of the projectors of a file. For one thread."""

    is_lost = False

    def __init__(
        self,
        log: SqliteLog,
        on_assigned: Callable[[Sequence[int], object], None],
        on_revoked: Callable[[bool], None],
    ) -> None:
        self._log = log
        self._member = SqliteTeamMember(log.file, _TEAM)
        self._tail = log.tail()
        self._reading: frozenset[int] = frozenset()
        self._on_assigned, self._on_revoked = on_assigned, on_revoked

    def poll(self, count: int, timeout_s: float) -> list[Fetched]:
        """Return the next records, by partition; none after ``timeout_s``."""
        had = bool(self._member.assigned)
        if self._member.look():
            if had:
                self._on_revoked(False)
            self.read({})
            self._on_assigned(sorted(self._member.assigned), self.membership())
        if not self._reading:
            time.sleep(timeout_s)
            return []
        return [
            Fetched(
                batch.partition, [batch.record(index) for index in range(len(batch.keys))], batch.next_offset, EPOCH,
                is_lost=batch.broken,
            )
            for batch in self._tail.poll(timeout_s)
        ]  # fmt: skip

    def read(self, positions: Mapping[int, int]) -> None:
        """Read only these partitions, from these offsets on."""
        for partition in self._reading - positions.keys():
            self._tail.end(partition)
        for partition, position in positions.items():
            self._tail.begin(partition, position)
        self._reading = frozenset(positions)

    def hints(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return no hint: the newest checkpoints of a partition are all that its table has."""
        return dict.fromkeys(partitions, 0)

    def membership(self) -> object:
        """Return the present membership."""
        return self._member.membership

    def end(self, partition: int) -> int | None:
        """Return the partition's end."""
        return self._log.watermarks(partition).high

    def close(self) -> None:
        """Leave the group. Idempotent."""
        self._tail.close()
        self._member.leave()
