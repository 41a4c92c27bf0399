"""What a journal accepts: sizes and shapes, written in its manifest, enforced by writers, checked by every reader."""

from __future__ import annotations

from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["DEFAULT_LIMITS", "Limits"]


class Limits(FrozenStruct, frozen=True, kw_only=True):
    """The bounds of design.md section 4. Bytes are of the encoded form; depth and items are of one dynamic value."""

    record_bytes: int = 1_048_576
    """An encoded entry, but for the kinds that restore a state: see ``restoring_bytes``."""
    state_bytes: int = 8_388_608
    """The text a process's state holds: so it can always be checkpointed."""
    depth: int = 64
    """Nesting of objects and arrays in one dynamic value."""
    items: int = 100_000
    """Members of all objects and arrays in one dynamic value."""

    @property
    def checkpoint_bytes(self) -> int:
        """The most a whole state takes: its content, and beside it mailbox, remembered ids, folds, scalars (2 MiB)."""
        return self.state_bytes + 2 * 1_048_576

    @property
    def restoring_bytes(self) -> int:
        """An encoded entry that restores a state (rewound, forked, seeded): so each state within its limit can be
        restored. It is as much as a checkpoint takes, whose room beside the content is enough for the envelope too."""
        return self.checkpoint_bytes


DEFAULT_LIMITS = Limits()
