"""Decide when a checkpoint is due. Pure."""

from __future__ import annotations

import msgspec

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft

CHECKPOINT_REQUEST = "seekpoint.checkpoint"
"""The kind of a custom entry that requests a checkpoint of its process."""

_HEAD_BYTES = 1_000
"""The approximate size of a checkpoint without its content."""


class Dirty(msgspec.Struct):
    """A process whose view is ahead of its checkpoint."""

    first: int
    """Its first unsaved entry. No floor may lie above it."""
    last: int
    """The newest entry that was folded into the view."""
    since_s: float
    """When it became dirty, by the projector's monotonic clock."""
    bytes: int = 0
    """Bytes of its unsaved entries."""
    state_bytes: int = 0
    is_urgent: bool = False


class Cadence(FrozenStruct, frozen=True, kw_only=True):
    """The rules for writing checkpoints: an urgent one at once, others by bytes or by age."""

    bytes_min: int = 16_384
    """Entries of fewer bytes are saved by age only, however small the snapshot is."""
    age_max_s: float = 30.0
    after_invocation: bool = False
    batch_max: int = 2_000
    """The most checkpoints of one partition in one transaction."""
    batch_bytes_max: int = 16_777_216

    @classmethod
    def of(cls, settings: Settings) -> Cadence:
        """Return the cadence that ``settings`` specify."""
        return cls(
            bytes_min=settings.checkpoint_bytes_min,
            age_max_s=settings.checkpoint_age_max_s,
            after_invocation=settings.checkpoint_after_invocation,
        )

    def is_ripe(self, dirty: Dirty) -> bool:
        """Return whether a checkpoint is due whatever its age: its tail is larger than it is, or it is urgent."""
        return dirty.is_urgent or dirty.bytes > max(self.bytes_min, dirty.state_bytes + _HEAD_BYTES)


def asks_for_checkpoint(body: b.Body, draft: Draft, after_invocation: bool) -> bool:
    """Return whether a checkpoint is due at once after ``body``: a recovery is likely soon, or content has to go."""
    if isinstance(body, b.LifecycleChanged):
        return draft.lifecycle is Lifecycle.SUSPENDED
    if isinstance(body, b.Custom):
        return body.kind == CHECKPOINT_REQUEST
    if isinstance(body, b.InvocationEnded):
        return after_invocation
    return isinstance(body, b.Released | b.Finished | b.Deleted)
