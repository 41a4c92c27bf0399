"""What a node knows of the checkpoints: where each process's newest one is, and the floor. Heads only, no states.

A partition is read once and then on from where it was known. More than ``heads_max`` heads are not kept: the partition
used longest ago is forgotten first, and read again when it is needed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, CheckpointReader, Floor, Partition, Saved, take
from seekpoint.schemas.errors import JournalMismatch, NewerFormat, SeekpointError

__all__ = ["CheckpointIndex", "Located"]

_POLL_S = 0.02


class Located(NamedTuple):
    """What the index has of one process, as of one position: P7 holds for these two together."""

    saved: Saved | None
    floor: Floor | None
    damage: SeekpointError | None
    """Why the newest checkpoint, or the newest floor, cannot be read. An older one is no substitute."""
    settled: bool
    """Whether everything that was written when it was asked is decided, and was read."""
    empty: bool
    """Whether nothing was ever written there."""


class _KnownPartition:
    """One partition, as it was read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.heads = Partition({}, None, 0)
        self.damaged: dict[bytes, SeekpointError] = {}

    def note(self, position: int, key: bytes, value: bytes | None) -> None:
        """One record. A damaged one stands in the way of the older one of its key: that may miss entries (P7)."""
        try:
            take(self.heads, position, key, value)
        except (JournalMismatch, NewerFormat) as exc:
            exc.facts.setdefault("position", position)
            self.damaged[key] = exc
        else:
            self.damaged.pop(key, None)


class CheckpointIndex:
    """Finds the newest checkpoint of a process. Thread safe; blocks; ``wait_s`` at most for an open transaction."""

    def __init__(self, reader: CheckpointReader, *, wait_s: float = 5.0, heads_max: int = 1_000_000) -> None:
        self._reader = reader
        self._wait_s = wait_s
        self._heads_max = heads_max
        self._known: OrderedDict[int, _KnownPartition] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, partition: int, key: bytes, *, settle: bool = False) -> Located:
        """Where the process's newest checkpoint is. ``settle``: wait for what is being written just now, too."""
        return self.find_many(partition, [key], settle=settle)[key]

    def find_many(self, partition: int, keys: list[bytes] | None, *, settle: bool = False) -> dict[bytes, Located]:
        """The same of several processes, as of one position; None: of all that have a checkpoint."""
        settled = self._wait(partition) if settle else False
        known = self._used(partition)
        with known.lock:
            self._read_on(partition, known)
            heads, damaged = known.heads, known.damaged
            wanted = [*heads.saved, *(key for key in damaged if key not in heads.saved)] if keys is None else keys
            empty = heads.position == 0
            found = {
                key: Located(heads.saved.get(key), heads.floor, _damage(known, key), settled, empty) for key in wanted
            }
        self._forget()
        return found

    def floor(self, partition: int) -> Floor | None:
        """The newest floor; raises what is wrong with it."""
        found = self.find(partition, b"\x00")
        if found.damage is not None:
            raise found.damage
        return found.floor

    def position(self, partition: int) -> int:
        """Everything below it was read."""
        return self._used(partition).heads.position

    def may_hold(self, partition: int, key: bytes, position: int) -> bool:
        """Whether there may be a checkpoint under ``key`` below ``position``. Reads nothing: a forgotten one may be."""
        known = self._known.get(partition)
        return known is None or known.heads.position < position or key in known.heads.saved or key in known.damaged

    def _read_on(self, partition: int, known: _KnownPartition) -> None:
        stop = self._reader.stable_end(partition)
        if stop < known.heads.position:  # emptied by somebody: what was kept is not there any more
            known.heads, known.damaged = Partition({}, None, 0), {}
        for position, key, value in self._reader.records(partition, known.heads.position, stop):
            known.note(position, key, value)
            known.heads.position = position + 1
        known.heads.position = max(known.heads.position, stop)

    def _wait(self, partition: int) -> bool:
        """Until what was written by now is decided; False if that takes too long."""
        end = self._reader.end(partition)
        deadline = time.monotonic() + self._wait_s
        while self._reader.stable_end(partition) < end:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _used(self, partition: int) -> _KnownPartition:
        with self._lock:
            known = self._known.setdefault(partition, _KnownPartition())
            self._known.move_to_end(partition)
            return known

    def _forget(self) -> None:
        with self._lock:
            while len(self._known) > 1 and sum(len(one.heads.saved) for one in self._known.values()) > self._heads_max:
                self._known.popitem(last=False)


def _damage(known: _KnownPartition, key: bytes) -> SeekpointError | None:
    return known.damaged.get(key) or known.damaged.get(FLOOR_KEY)
