"""Counts and checksums of sent and of arrived records, by partition of the target, and the offset map.

The checksum covers key, value, timestamp and headers of each record, and its offset in the source. It does not depend
on the order in which partitions were interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from seekpoint.consumers.staging.copy.headers import JOB, OFFSET, TIMESTAMP, ReplayOrigin, without_replay_headers
from seekpoint.consumers.staging.replay_ports import Headers, ReplayMessage
from seekpoint.schemas.errors import ReplayMismatch

MASK = 0xFFFFFFFF
NO_KEY, NO_VALUE = 0x9E3779B9, 0x7F4A7C15
"""Constants of ``record_sum``."""

Tally = list[int]
"""Records, bytes of keys and values, checksum."""


def record_sum(offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> int:
    """Return a CRC-32 of the record and its offset in the source. None and empty differ."""
    start = (offset * 0x9E3779B1 ^ timestamp_ms) & MASK
    start = start ^ NO_KEY if key is None else crc32(key, start)
    start = start ^ NO_VALUE if value is None else crc32(value, start)
    for name, text in headers:
        start = crc32(name.encode(), start)
        start = start ^ NO_VALUE if text is None else crc32(text, start)
    return start


class Tallies:
    """The tally of each partition of the target."""

    def __init__(self, tallies: Mapping[int, Sequence[int]] | None = None) -> None:
        self.by_partition: dict[int, Tally] = {at: list(tally) for at, tally in (tallies or {}).items()}

    def of_partition(self, partition: int) -> Tally:
        """Return the tally of a partition, for adding to it."""
        return self.by_partition.setdefault(partition, [0, 0, 0])

    def copy(self) -> Tallies:
        """Return a copy."""
        return Tallies(self.by_partition)

    @property
    def records(self) -> int:
        """Return the records of all partitions."""
        return sum(tally[0] for tally in self.by_partition.values())

    @property
    def bytes(self) -> int:
        """Return the bytes of all keys and values."""
        return sum(tally[1] for tally in self.by_partition.values())

    def to_dict(self) -> dict[str, list[int]]:
        """Return plain data."""
        return {str(at): tally.copy() for at, tally in sorted(self.by_partition.items())}

    @classmethod
    def from_dict(cls, data: Mapping[str, Sequence[int]]) -> Tallies:
        """Return the tallies that ``to_dict`` wrote."""
        return cls({int(at): tally for at, tally in data.items()})


@dataclass(slots=True)
class MappedRange:
    """Consecutive records of one source partition that are consecutive in the target too."""

    partition: int
    offset: int
    target_partition: int
    target_offset: int
    count: int = 1

    def extend(self, partition: int, offset: int, target_partition: int, target_offset: int) -> bool:
        """Add the record if it is the next one of this range; return whether it is."""
        is_next = (
            partition == self.partition
            and target_partition == self.target_partition
            and offset == self.offset + self.count
            and target_offset == self.target_offset + self.count
        )
        self.count += is_next
        return is_next


@dataclass(slots=True)
class Arrivals:
    """The records of a job in the target, while it is read back."""

    job: str
    on_range: Callable[[MappedRange], None] = lambda mapped: None
    """Receives each complete range of the offset map."""
    tallies: Tallies = field(default_factory=Tallies)
    seeded: int = 0
    disorder: list[str] = field(default_factory=list)
    """The first records that are not in the order of the source, or are there twice."""
    _newest: dict[tuple[int, int], int] = field(default_factory=dict)
    _open_ranges: dict[int, MappedRange] = field(default_factory=dict)
    _partitions: dict[bytes, int] = field(default_factory=dict)
    _job_header: tuple[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._job_header = (JOB, self.job.encode())

    def add(self, message: ReplayMessage) -> None:
        """Count one record of the target, if the job sent it. Most records have the four replay headers last."""
        headers: Any = message.headers()
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
        origin = ReplayOrigin.from_headers(headers)
        if origin is not None and origin.job == self.job:
            self._count(message, without_replay_headers(headers), *origin[2:5], origin.seeded)

    def _count(
        self, message: ReplayMessage, headers: Headers, source: int, offset: int, stamp: int, seeded: bool
    ) -> None:
        key, value, partition = message.key(), message.value(), message.partition()
        tally = self.tallies.by_partition.get(partition) or self.tallies.of_partition(partition)
        tally[0] += 1
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        # The client replaced a time of 0 by the current time; the header still has the original.
        found = message.timestamp()[1] if stamp > 0 else stamp
        tally[2] += record_sum(offset, key, value, found, headers)
        if seeded:
            self.seeded += 1
        else:
            self._map(source, offset, partition, message.offset())

    def _map(self, source: int, source_offset: int, partition: int, offset: int) -> None:
        pair = (source, partition)
        if source_offset <= self._newest.get(pair, -1) and len(self.disorder) < 10:
            self.disorder.append(f"{source}:{source_offset} twice or out of order at {partition}:{offset}")
        self._newest[pair] = source_offset
        mapped = self._open_ranges.get(partition)
        if mapped is None or not mapped.extend(source, source_offset, partition, offset):
            if mapped is not None:
                self.on_range(mapped)
            self._open_ranges[partition] = MappedRange(source, source_offset, partition, offset)

    def finish(self) -> None:
        """Pass on the last ranges."""
        for mapped in self._open_ranges.values():
            self.on_range(mapped)
        self._open_ranges = {}


def compare(sent: Tallies, arrived: Arrivals) -> None:
    """Raise ``ReplayMismatch`` for the first partition whose records, bytes, checksum or order differ."""
    for partition in sorted(sent.by_partition.keys() | arrived.tallies.by_partition.keys()):
        expected, found = sent.of_partition(partition), arrived.tallies.of_partition(partition)
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
