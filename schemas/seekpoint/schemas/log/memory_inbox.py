"""The inbox in memory: the twin of the group on Kafka, for tutorials and tests."""

from __future__ import annotations

from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog


class MemoryGroup:
    """A group of members that share the partitions of a log. An assigned partition stays where it is if it can."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.committed: dict[int, int] = {}
        """Partition -> the offset below which all records are done."""
        self._owners: dict[int, MemoryInboxMember] = {}
        self._members: list[MemoryInboxMember] = []

    @classmethod
    def of(cls, log: MemoryLog, name: str) -> MemoryGroup:
        """Return the group ``name`` over the inbox of the journal ``log``."""
        inbox = log.topic("inbox")
        found: MemoryGroup = inbox.groups.setdefault(name, cls(inbox))
        return found

    def join(self) -> MemoryInboxMember:
        """Add a member."""
        member = MemoryInboxMember(self)
        with self.log.appended:
            self._members.append(member)
            self._share_out()
        return member

    def leave(self, member: MemoryInboxMember) -> None:
        """Remove a member, also one that is dead: its partitions go to the others."""
        with self.log.appended:
            if member in self._members:
                self._members.remove(member)
                self._share_out()

    def partitions_of(self, member: MemoryInboxMember) -> frozenset[int]:
        """Return the partitions that are assigned to ``member``."""
        return frozenset(partition for partition, owner in self._owners.items() if owner is member)

    def _share_out(self) -> None:
        """Give each member its fair share, and move as few partitions as that needs."""
        count = len(self._members)
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner in self._members}
        if not count:
            return
        most = -(-self.log.partitions // count)
        for member in self._members:
            for partition in sorted(self.partitions_of(member))[most:]:
                del self._owners[partition]
        for partition in range(self.log.partitions):
            if partition not in self._owners:
                self._owners[partition] = min(self._members, key=lambda one: len(self.partitions_of(one)))
        self.log.appended.notify_all()


class MemoryInboxMember:
    """A member of a ``MemoryGroup``."""

    def __init__(self, group: MemoryGroup) -> None:
        self._group = group
        self._positions: dict[int, int] = {}
        self.assigned: frozenset[int] = frozenset()
        self.is_joined = False

    def poll(self, timeout_s: float) -> list[Record]:
        """Return the next records of the assigned partitions."""
        log = self._group.log
        with log.appended:
            found = self._found()
            if not found:
                log.appended.wait(timeout_s)
                found = self._found()
            return found

    def _found(self) -> list[Record]:
        log, now = self._group.log, self._group.partitions_of(self)
        self._positions = {
            partition: self._positions.get(partition, self._group.committed.get(partition, 0)) for partition in now
        }
        self.assigned = now
        self.is_joined = True
        found: list[Record] = []
        for partition, position in self._positions.items():
            high = log.watermarks(partition).high
            for batch in log.read(partition, position, high):
                found += batch.records
            self._positions[partition] = high
        return found

    def commit(self, partition: int, offset: int) -> None:
        """Store that all records below ``offset`` are done."""
        if partition in self._group.partitions_of(self):
            self._group.committed[partition] = offset

    def close(self) -> None:
        """Leave the group."""
        self._group.leave(self)
