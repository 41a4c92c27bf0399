"""What a journal accepts: sizes and shapes, written in its manifest, enforced by writers, checked by every reader."""

from __future__ import annotations

from seekpoint.schemas.dataclass import dataclass

__all__ = ["DEFAULT_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of design.md section 4. Bytes are of the encoded form; depth and items are of one dynamic value."""

    record_bytes: int = 1_048_576
    """An encoded entry; the topic's ``max.message.bytes`` is audited against it."""
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


DEFAULT_LIMITS = Limits()
