"""Plain data: the stored parts of a thread, and the changes that may be made to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Json: TypeAlias = "str | int | float | list[Json]"
"""What the adapter writes: texts, numbers and lists, never an object or null."""
Version: TypeAlias = "str | int | float"


class StoredValue(NamedTuple):
    """A channel's value at one version. The type ``empty`` says that the channel has none."""

    version: Version
    type: str
    data: str
    """The serializer's bytes, in base64."""


class StoredWrite(NamedTuple):
    """One write of a task."""

    idx: int
    channel: str
    type: str
    data: str


class StoredCheckpoint(NamedTuple):
    """A checkpoint without the values of its channels."""

    id: str
    parent_id: str
    """Empty if it has none."""
    type: str
    data: str
    metadata_type: str
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Store a checkpoint, and the values of the channels that changed."""

    ns: str
    checkpoint: StoredCheckpoint
    versions: Mapping[str, Version]
    """The versions of all its channels."""
    channels: Mapping[str, StoredValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutWrites:
    """Store writes of one task with a checkpoint. Of two with one index the first stays; of special ones the last."""

    ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    items: Sequence[StoredWrite]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Remove checkpoints and their writes. ``based_on`` is the seq of the history that they were chosen by."""

    based_on: int
    gone: Mapping[str, Sequence[str]]
    """Checkpoint ids by namespace."""
    newest: Sequence[Put | PutWrites] = ()
    """The newest checkpoints that stay, of the namespaces whose newest one goes."""


Op: TypeAlias = Put | PutWrites | Forget
