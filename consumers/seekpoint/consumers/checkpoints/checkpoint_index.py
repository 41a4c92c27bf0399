"""The index of a node: where each process's newest checkpoint is, and the floor. Heads only, no states.

The index reads a partition once and later only what is new. It keeps about ``heads_max`` heads: above that it drops the
partition that was used longest ago, and reads that one again when it is needed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from seekpoint.consumers.checkpoints.checkpoint import (
    FLOOR_KEY,
    CheckpointHead,
    CheckpointReader,
    Floor,
    PartitionHeads,
)
from seekpoint.consumers.log_reading.lost_ends import highest
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Landmark

_POLL_S = 0.02


class Located(FrozenStruct, frozen=True):
    """The head and the floor that the index has of one process. Head and floor are of one position, as P7 requires."""

    head: CheckpointHead | None
    floor: Floor | None
    damage: SeekpointError | None
    """Why the newest checkpoint cannot be read. An older one must not replace it."""
    settled: bool
    """Whether everything that was written before the call is decided, and was read."""
    empty: bool
    """Whether nothing was ever written to the partition."""


class Unfinished(FrozenStruct, frozen=True):
    """The processes of a partition whose newest checkpoint is not of a finished process, and the floor beside them."""

    floor: Floor | None
    keys: frozenset[bytes]
    is_finished: Callable[[bytes], bool]
    """Returns whether the newest checkpoint of a key is of a finished process."""


class _IndexedPartition:
    """One partition, as far as it was read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.contents = PartitionHeads({}, None, 0)

    def locate(self, key: bytes, settled: bool) -> Located:
        """Return what is known of ``key``."""
        contents = self.contents
        damage = contents.damaged.get(key)
        return Located(contents.heads.get(key), contents.floor, damage, settled, contents.position == 0)


class CheckpointIndex:
    """Finds newest checkpoints. Thread safe; blocks, for an open transaction ``wait_s`` at most."""

    def __init__(
        self,
        reader: CheckpointReader,
        *,
        wait_s: float = 5.0,
        heads_max: int = 1_000_000,
        topic_id: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``topic_id`` returns the id of the journal's topic, whose floors count; None: every floor counts."""
        self._reader = reader
        self._topic_id = topic_id
        self._wait_s = wait_s
        self._heads_max = heads_max
        self._partitions: OrderedDict[int, _IndexedPartition] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, partition: int, key: bytes, *, settle: bool = False) -> Located:
        """Locate the process's newest checkpoint. ``settle`` waits for open transactions first."""
        return self.find_many(partition, [key], settle=settle)[key]

    def find_many(self, partition: int, keys: list[bytes] | None, *, settle: bool = False) -> dict[bytes, Located]:
        """Locate the newest checkpoints of several processes as of one position; None: of all that have one."""
        settled = self._wait(partition) if settle else False
        indexed = self._use(partition)
        with indexed.lock:
            self._read_on(partition, indexed)
            if keys is None:
                keys = [*indexed.contents.heads, *indexed.contents.damaged]
            found = {key: indexed.locate(key, settled) for key in keys}
        self._evict()
        return found

    def read_newest(self, partition: int, key: bytes) -> tuple[Located, bytes | None]:
        """Locate and read the process's newest checkpoint. The record is None if there is none, or it is damaged."""
        while True:
            found = self.find(partition, key)
            if found.damage is not None or found.head is None:
                return found, None
            value = self._reader.at(partition, found.head.position, key)
            if value is not None:  # otherwise a newer one replaced it
                return found, value

    def unfinished(self, partition: int) -> Unfinished:
        """Return the unfinished processes that have a checkpoint, those whose checkpoint cannot be read among them."""
        indexed = self._use(partition)
        with indexed.lock:
            self._read_on(partition, indexed)
            contents = indexed.contents
            keys = frozenset(key for key, head in contents.heads.items() if not head.is_finished)
            keys = keys.union(contents.damaged)
        self._evict()

        def is_finished(key: bytes) -> bool:
            head = contents.heads.get(key)
            return head is not None and head.is_finished

        return Unfinished(contents.floor, keys, is_finished)

    def landmarks(self, partition: int) -> list[Landmark]:
        """Return the newest journal records that checkpoints stand on, by leader epoch, and that of the floor."""
        floor, indexed = self.floor(partition), self._use(partition)
        with indexed.lock:
            found = highest(head.landmark for head in indexed.contents.heads.values())
        return found if floor is None else [*found, floor.landmark]

    def floor(self, partition: int) -> Floor | None:
        """Return the newest floor that can be read."""
        return self.find(partition, FLOOR_KEY).floor

    def position(self, partition: int) -> int:
        """Return the position below which the partition was read."""
        return self._use(partition).contents.position

    def may_contain(self, partition: int, key: bytes, position: int) -> bool:
        """Return whether ``key`` may have a checkpoint below ``position``. Reads nothing; True for a dropped index."""
        indexed = self._partitions.get(partition)
        if indexed is None or indexed.contents.position < position:
            return True
        return key in indexed.contents.heads or key in indexed.contents.damaged

    def _read_on(self, partition: int, indexed: _IndexedPartition) -> None:
        stop = self._reader.stable_end(partition)
        if stop < indexed.contents.position:  # the topic was emptied or re-created
            indexed.contents = PartitionHeads({}, None, 0)
        if stop == indexed.contents.position:
            return
        topic_id = self._topic_id()
        for position, key, value in self._reader.records(partition, indexed.contents.position, stop):
            indexed.contents.apply(position, key, value, topic_id)
            indexed.contents.position = position + 1
        indexed.contents.position = max(indexed.contents.position, stop)

    def _wait(self, partition: int) -> bool:
        """Wait until what was written by now is decided; return False if that takes too long."""
        end = self._reader.end(partition)
        deadline = time.monotonic() + self._wait_s
        while self._reader.stable_end(partition) < end:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _use(self, partition: int) -> _IndexedPartition:
        with self._lock:
            indexed = self._partitions.setdefault(partition, _IndexedPartition())
            self._partitions.move_to_end(partition)
            return indexed

    def _evict(self) -> None:
        with self._lock:
            partitions = self._partitions
            while len(partitions) > 1 and sum(len(one.contents.heads) for one in partitions.values()) > self._heads_max:
                partitions.popitem(last=False)
