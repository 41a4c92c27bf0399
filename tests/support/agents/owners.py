"""An owner played by hand: claims a process and writes its entries, without a node."""

from __future__ import annotations

from collections.abc import Callable

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.codec import encode

__all__ = ["Owner"]


class Owner:
    """Writes as the owner of one process. Every call gives the entry's offset."""

    def __init__(
        self, append: Callable[[int, bytes | None, bytes | None], int], partitions: int, process_id: str
    ) -> None:
        self._append = append
        self.process_id = process_id
        self.key = process_id.encode()
        self.partition = partition_of(self.key, partitions)
        self.epoch = 0
        self.seq = 0
        self.claim_id: bytes | None = None

    def claim(self, node_id: str = "node-1") -> int:
        """Take the process."""
        entry = self.entry(b.Claim(self.epoch, node_id, "boot-1"))
        self.epoch += 1
        self.claim_id = entry.id
        return self.put(entry)

    def update(self, key: str, value: str) -> int:
        """Set a context value, given as JSON text."""
        return self.own(b.ContextUpdated(key, value))

    def own(self, body: b.Body) -> int:
        """Write an owner's entry."""
        self.seq += 1
        return self.put(self.entry(body, self.seq))

    def external(self, body: b.Body) -> int:
        """Write an external entry."""
        return self.put(self.entry(body))

    def raw(self, value: bytes | None, key: bytes | None = None) -> int:
        """Write any bytes under the process's key, or another."""
        return self._append(self.partition, self.key if key is None else key, value)

    def put(self, entry: Entry) -> int:
        """Write an entry as it is."""
        return self._append(self.partition, self.key, encode(entry))

    def entry(self, body: b.Body, seq: int | None = None) -> Entry:
        """The entry that would be written."""
        owns = seq is not None
        epoch, claim_id = (self.epoch, self.claim_id) if owns else (0, None)
        return Entry(new_id(), self.process_id, seq, epoch, claim_id, None, 0, None, None, None, body)
