"""The limits of a journal. Its manifest stores them, writers enforce them and readers check them."""

from __future__ import annotations

from seekpoint.schemas.frozen_struct import FrozenStruct


class Limits(FrozenStruct, frozen=True, kw_only=True):
    """The limits of sizes and nesting. Bytes are those of the encoding; depth and items apply to one dynamic value."""

    record_bytes: int = 1_048_576
    """The size of an encoded entry, except for the kinds that restore a state: see ``restoring_bytes``."""
    state_bytes: int = 8_388_608
    """The size of the content of a state. The limit makes sure that every state can be checkpointed."""
    depth: int = 64
    """The nesting of objects and arrays in one dynamic value."""
    items: int = 100_000
    """The number of members of all objects and arrays in one dynamic value."""
    attached_bytes: int = 268_435_456
    """The size of all attachments of a process together. They are no part of its state, so it may exceed that limit."""

    @property
    def checkpoint_bytes(self) -> int:
        """The maximum size of a whole state: its content, and 2 MiB for mailbox, remembered ids, folds and scalars."""
        return self.state_bytes + 2 * 1_048_576

    @property
    def part_bytes(self) -> int:
        """The size of one part of an attachment, which leaves room for the envelope of its entry."""
        return max(1, self.record_bytes // 4 * 3)

    @property
    def restoring_bytes(self) -> int:
        """The size of an encoded entry that restores a state (rewound, forked, seeded).

        It is that of a checkpoint, so every state within its limit can be restored: the 2 MiB beside the content are
        enough for the envelope too.
        """
        return self.checkpoint_bytes


DEFAULT_LIMITS = Limits()
