"""What was sent and what arrived, counted and summed up by partition of the target; and where each record came to lie.

The sum takes in key, value, timestamp and headers of each record, and the offset it has in the source. It does not
depend on the order in which partitions were interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from seekpoint.consumers.staging.copy.headers import JOB, OFFSET, TIMESTAMP, Origin, without_ours
from seekpoint.consumers.staging.replay_ports import Headers
from seekpoint.schemas.errors import ReplayMismatch

__all__ = ["MASK", "NO_KEY", "NO_VALUE", "Arrivals", "Run", "Tallies", "compare", "record_sum"]

MASK = 0xFFFFFFFF
NO_KEY, NO_VALUE = 0x9E3779B9, 0x7F4A7C15
"""What ``record_sum`` is made with."""

Tally = list[int]
"""Records, bytes of keys and values, sum."""


def record_sum(offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> int:
    """A CRC-32 of the whole record, of its offset in the source too. None and empty differ."""
    start = (offset * 0x9E3779B1 ^ timestamp_ms) & MASK
    start = start ^ NO_KEY if key is None else crc32(key, start)
    start = start ^ NO_VALUE if value is None else crc32(value, start)
    for name, text in headers:
        start = crc32(name.encode(), start)
        start = start ^ NO_VALUE if text is None else crc32(text, start)
    return start


class Tallies:
    """Tallies by partition of the target."""

    def __init__(self, tallies: Mapping[int, Sequence[int]] | None = None) -> None:
        self.by_partition: dict[int, Tally] = {at: list(tally) for at, tally in (tallies or {}).items()}

    def of(self, partition: int) -> Tally:
        """The tally of a partition, to be added to."""
        return self.by_partition.setdefault(partition, [0, 0, 0])

    def copy(self) -> Tallies:
        """As of now."""
        return Tallies(self.by_partition)

    @property
    def records(self) -> int:
        """All of them."""
        return sum(tally[0] for tally in self.by_partition.values())

    @property
    def bytes(self) -> int:
        """Of all keys and values."""
        return sum(tally[1] for tally in self.by_partition.values())

    def to_dict(self) -> dict[str, list[int]]:
        """As plain data."""
        return {str(at): tally.copy() for at, tally in sorted(self.by_partition.items())}

    @classmethod
    def from_dict(cls, data: Mapping[str, Sequence[int]]) -> Tallies:
        """What ``to_dict`` gave."""
        return cls({int(at): tally for at, tally in data.items()})


@dataclass(slots=True)
class Run:
    """Records of one source partition that lie beside each other in the target as they did in the source."""

    partition: int
    offset: int
    target_partition: int
    target_offset: int
    count: int = 1

    def takes(self, partition: int, offset: int, target_partition: int, target_offset: int) -> bool:
        """Whether the record goes on with this run; it is added then."""
        goes_on = (
            partition == self.partition
            and target_partition == self.target_partition
            and offset == self.offset + self.count
            and target_offset == self.target_offset + self.count
        )
        self.count += goes_on
        return goes_on


@dataclass(slots=True)
class Arrivals:
    """What a job left in the target, as it is read back."""

    job: str
    on_run: Callable[[Run], None] = lambda run: None
    """Told of each run of the offset map."""
    tallies: Tallies = field(default_factory=Tallies)
    seeded: int = 0
    disorder: list[str] = field(default_factory=list)
    """The first places where a source's records are not in its order, or one is twice there."""
    _newest: dict[tuple[int, int], int] = field(default_factory=dict)
    _runs: dict[int, Run] = field(default_factory=dict)
    _partitions: dict[bytes, int] = field(default_factory=dict)
    _job_header: tuple[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._job_header = (JOB, self.job.encode())

    def add(self, message: Any) -> None:
        """Count one record of the target, if it is the job's. Most have our four headers last."""
        headers = message.headers()
        if headers is None:
            return
        last = headers[-4:]
        if len(last) == 4 and last[0] == self._job_header and last[3][0] == TIMESTAMP and last[2][0] == OFFSET:
            source, offset, stamp = last[1][1], int(last[2][1]), int(last[3][1])
            partition = self._partitions.get(source)
            if partition is None:
                partition = self._partitions[source] = int(source.rpartition(b"/")[2])
            self._count(message, headers[:-4] if len(headers) > 4 else (), partition, offset, stamp, False)
            return
        origin = Origin.of(headers)
        if origin is not None and origin.job == self.job:
            self._count(message, without_ours(headers), *origin[2:5], origin.seeded)

    def _count(self, message: Any, kept: Headers, source: int, offset: int, stamp: int, seeded: bool) -> None:
        key, value, partition = message.key(), message.value(), message.partition()
        tally = self.tallies.by_partition.get(partition) or self.tallies.of(partition)
        tally[0] += 1
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        # A time that Kafka's client cannot carry (0) was stamped anew; its header still says it.
        found = message.timestamp()[1] if stamp > 0 else stamp
        tally[2] += record_sum(offset, key, value, found, kept)
        if seeded:
            self.seeded += 1
        else:
            self._place(source, offset, partition, message.offset())

    def _place(self, source: int, source_offset: int, partition: int, offset: int) -> None:
        lane = (source, partition)
        if source_offset <= self._newest.get(lane, -1) and len(self.disorder) < 10:
            self.disorder.append(f"{source}:{source_offset} again or too late at {partition}:{offset}")
        self._newest[lane] = source_offset
        run = self._runs.get(partition)
        if run is None or not run.takes(source, source_offset, partition, offset):
            if run is not None:
                self.on_run(run)
            self._runs[partition] = Run(source, source_offset, partition, offset)

    def finish(self) -> None:
        """Nothing more comes: tell of the last runs."""
        for run in self._runs.values():
            self.on_run(run)
        self._runs = {}


def compare(sent: Tallies, arrived: Arrivals) -> None:
    """Raise ``ReplayMismatch`` with the first partition whose records, bytes or sum differ, or whose order does."""
    for partition in sorted(sent.by_partition.keys() | arrived.tallies.by_partition.keys()):
        expected, found = sent.of(partition), arrived.tallies.of(partition)
        if expected != found:
            what = "counts" if expected[0] != found[0] else "checksums"
            raise ReplayMismatch(
                f"the {what} of source and target differ",
                target_partition=partition,
                sent_records=expected[0],
                found_records=found[0],
                sent_bytes=expected[1],
                found_bytes=found[1],
                first=arrived.disorder[0] if arrived.disorder else None,
            )
    if arrived.disorder:
        raise ReplayMismatch("records are not in the order of the source", first=arrived.disorder[0])
