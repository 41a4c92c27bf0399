"""The tail of one partition: its listeners, and the callers that wait for an offset. Pure: no I/O, no clock."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from seekpoint.producers.tail.proven_absence import Absence
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import Landmark, Record
from seekpoint.schemas.log.tail import TailBatch

logger = logging.getLogger("seekpoint.producers")


class Taken(NamedTuple):
    """Records that a node took from their acknowledgements, one after the other, and has not read."""

    start: int
    """The offset of the first one."""
    newest: Record
    checksum: int
    """The CRC-32 of all values, one behind the other."""
    since: float
    """When the first one was taken."""

    @classmethod
    def of(cls, records: Sequence[Record], now: float) -> Taken:
        """Return what was taken: ``records``, the first ones."""
        return cls(records[0].offset, records[-1], checksum_of(records), now)

    def with_next(self, records: Sequence[Record]) -> Taken:
        """Return what was taken, with the records that follow."""
        return self._replace(newest=records[-1], checksum=checksum_of(records, self.checksum))


def checksum_of(records: Iterable[Record], before: int = 0) -> int:
    """Return the CRC-32 of the records' values, behind values whose checksum is ``before``."""
    for record in records:
        before = zlib.crc32(record.value or b"", before)
    return before


class Unverified(NamedTuple):
    """The records to look for at a new leader: the last one that was read before, and those taken behind it."""

    last: Landmark | None
    taken: Taken | None


class Listener(Protocol):
    """A receiver of every record of one process: an open handle, an open under way, or a followed value."""

    process_id: str
    key: bytes

    def absorb(self, records: list[Record], position: int) -> None:
        """Take the process's records; there are no others below ``position``. What this raises goes to ``fail``."""

    def fail(self, error: SeekpointError) -> None:
        """Take note that the log, as far as it concerns this process, is wrong."""


class Observer(Protocol):
    """A receiver of every batch of a partition, whatever process its records are of."""

    def observe(self, batch: TailBatch) -> None:
        """Take the next batch. The tail's position and its proof of absence are those from before it."""

    def fail(self, error: SeekpointError) -> None:
        """Take note that the partition is not followed any more."""


class PartitionTail:
    """The tail of one partition from ``position`` on, without a hole: a listener misses nothing once attached."""

    def __init__(self, partition: int, position: int) -> None:
        self.partition = partition
        self.position = position
        self.listeners: dict[bytes, Listener] = {}
        self.followers: dict[bytes, list[Listener]] = {}
        """Further listeners of processes, which only look at them: any number of each process, beside its handle."""
        self.observer: Observer | None = None
        self.absence = Absence(position)
        """The processes that are proven not to exist."""
        self.watchers = 0
        """How many callers wait for any next record."""
        self.generation = 0
        """Raised whenever following starts again; batches of an earlier generation are ignored."""
        self.broken = False
        self.error: SeekpointError | None = None
        """Why the partition is no longer followed."""
        self.moved_at = 0.0
        """When the position last advanced, or a caller began to wait."""
        self.read_at = 0.0
        """When a batch last arrived."""
        self.ended_at = 0.0
        """When the partition was last read to its end on request."""
        self.last: Landmark | None = None
        self.taken: Taken | None = None
        """The newest own records that were not read yet, if that is how the tail got to its position."""
        self.unverified: Unverified | None = None
        """What was delivered before the leader changed, until the tailer has checked that the new leader has it."""
        self.is_checking = False
        self.takes = 0
        """How often in a row own records were taken from acknowledgements, while no other node wrote."""
        self.read_unanswered = 0
        """How many records were read since, which may be own ones whose acknowledgements are on their way."""
        self._waiting: dict[asyncio.Future[None], int] = {}

    # --- listeners
    def attach(self, listener: Listener) -> None:
        """Deliver the records of the listener's process to it, from ``position`` on."""
        self.listeners[listener.key] = listener

    def detach(self, listener: Listener) -> None:
        """Stop delivering records to this listener, unless another one has taken its place."""
        if self.listeners.get(listener.key) is listener:
            del self.listeners[listener.key]
        followers = self.followers.get(listener.key, [])
        if listener in followers:
            followers.remove(listener)
            if not followers:
                del self.followers[listener.key]

    def attach_follower(self, follower: Listener) -> None:
        """Deliver the records of the follower's process to it, too, from ``position`` on."""
        followers = self.followers.setdefault(follower.key, [])
        if follower not in followers:
            followers.append(follower)

    @property
    def all_listeners(self) -> list[Listener]:
        """Every listener, the followers too."""
        return [*self.listeners.values(), *(one for some in self.followers.values() for one in some)]

    # --- records
    def deliver(self, batch: TailBatch) -> None:
        """Give the records of ``batch`` to their listeners, then wake the callers that waited for them.

        What was delivered before is left out: an owner's own records may come twice, see ``Tailer.take_written``.
        """
        if batch.first is not None and batch.first.offset < self.position:
            self._note_leader(batch)
            batch = self._newer_part(batch)
        if self.observer is not None:
            self._observe(self.observer, batch)
        listeners, followers = self.listeners, self.followers
        found: dict[bytes, list[Record]] = {}
        for index, key in enumerate(batch.keys):
            if key in listeners or key in followers:
                found.setdefault(key, []).append(batch.record(index))
        self.absence.note(batch.keys)
        self.read_unanswered += len(batch.keys)
        self._note_leader(batch)
        self.position = max(self.position, batch.next_offset)
        for key, records in found.items():
            if key in listeners:
                self._deliver(listeners[key], records)
            for follower in list(followers.get(key, ())):
                self._deliver(follower, records)
        self._wake()

    def take(self, records: list[Record], now: float) -> None:
        """Deliver own records from their acknowledgements: they follow the position and one another."""
        follows = self.taken is not None and self.taken.newest.offset + 1 == records[0].offset
        self.taken = self.taken.with_next(records) if self.taken and follows else Taken.of(records, now)
        position = records[-1].offset + 1
        self.takes = 0 if self.read_unanswered else self.takes + 1
        self.deliver(TailBatch(self.partition, [one.key for one in records], records.__getitem__, position))
        self.read_unanswered = 0

    def _newer_part(self, batch: TailBatch) -> TailBatch:
        if batch.next_offset <= self.position:
            return TailBatch(batch.partition, (), batch.record, self.position)
        count = len(batch.keys)
        at = next((at for at in range(count) if batch.record(at).offset >= self.position), count)
        return TailBatch(
            batch.partition, batch.keys[at:], lambda index: batch.record(at + index), batch.next_offset, last=batch.last
        )

    @staticmethod
    def _observe(observer: Observer, batch: TailBatch) -> None:
        try:
            observer.observe(batch)
        except Exception as exc:  # the listeners get their records whatever is wrong with the observer
            failure = SeekpointError(f"the observer failed: {type(exc).__name__}", partition=batch.partition)
            failure.__cause__ = exc
            observer.fail(failure)

    def bring(self, listener: Listener) -> None:
        """Move a listener without new records to the tail's position."""
        self._deliver(listener, [])

    def _deliver(self, listener: Listener, records: list[Record]) -> None:
        try:
            listener.absorb(records, self.position)
        except SeekpointError as exc:  # a truncated log, a newer format: this process stops, loudly
            logger.error("process %s stops: %s", listener.process_id, exc)
            listener.fail(exc)

    def _note_leader(self, batch: TailBatch) -> None:
        """Ask for a check where the leader changed: a new leader may lack records that the old one had.

        One leader only appends, so what was taken is in the log if the records before and behind it have one epoch.
        """
        if batch.first is None or batch.last is None:
            return
        was = -1 if self.last is None else self.last.leader_epoch
        if {batch.first.leader_epoch, batch.last.leader_epoch} - {was, -1}:
            if self.last is not None or self.taken is not None:
                self.unverified = self.unverified or Unverified(self.last, self.taken)
            if self.last is not None:
                self.absence.forget()
            self.taken = None
        elif self.taken is not None and batch.last.offset >= self.taken.newest.offset:
            self.taken = None
        self.last = batch.last

    # --- callers that wait
    @property
    def target(self) -> int:
        """The highest offset that a caller waits for; 0 if none does."""
        return max(self._waiting.values(), default=0)

    async def wait_for(self, position: int) -> None:
        """Return once everything below ``position`` is delivered. Raises what is wrong with the log."""
        if self.position >= position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def _wake(self) -> None:
        for future, position in list(self._waiting.items()):
            if position <= self.position:
                del self._waiting[future]
                if not future.done():
                    future.set_result(None)

    def fail(self, error: SeekpointError) -> None:
        """Raise ``error`` in every caller that waits."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_exception(error)
