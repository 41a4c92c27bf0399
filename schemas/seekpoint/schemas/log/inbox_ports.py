"""The inbox of a journal: the topic ``NAME.inbox`` of submissions, and the group of workers that share its partitions.

The inbox has as many partitions as the journal, and a process has the same one in both. A member of the group is
responsible for the partitions that are assigned to it. Who owns a process is another
question, which only claims decide.
"""

from __future__ import annotations

from typing import Protocol

from seekpoint.schemas.log.log_ports import Record


class InboxMember(Protocol):
    """One member of a group. For one thread; blocks. Raises ``JournalUnavailable`` and ``JournalMismatch``."""

    def poll(self, timeout_s: float) -> list[Record]:
        """Return the next records of the assigned partitions, in order for each; none after ``timeout_s``."""
        ...

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that are assigned to this member as of the last poll."""
        ...

    @property
    def is_joined(self) -> bool:
        """Whether the group has assigned partitions to this member, or has told it that there are none for it."""
        ...

    def commit(self, partition: int, offset: int) -> None:
        """Store that all records below ``offset`` are done. A partition that is assigned elsewhere now is left out."""
        ...

    def close(self) -> None:
        """Leave the group: the others get the partitions at once. Idempotent."""
        ...
