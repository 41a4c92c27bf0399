"""Where a view is kept: the port between the projector and Redis. ``MemoryView`` is its twin.

A view is, a journal partition: an **applied** offset, and every process's state as of it. State and offset change in
one call (P3), guarded by a **token**: a fresh one for every rebuild, and part of all keys, so that whoever was at work
on the view before it changes nothing any more (P1b).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from seekpoint.schemas.conversation import Message
from seekpoint.schemas.state import State

__all__ = ["Change", "Pointer", "Seen", "ViewMeta", "ViewStore"]


class ViewMeta(NamedTuple):
    """One partition's view. ``applied`` is None while it is being rebuilt; -1 is valid: nothing applied yet."""

    token: str
    applied: int | None
    topic_id: str
    leader_epoch: int
    """Of the record at ``applied``; -1 where it is not known."""


class Pointer(NamedTuple):
    """Where a checkpoint is, and the floor of the transaction that wrote it: one is no use without the other."""

    position: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a batch did to one process. ``state`` is the state after it; the rest says which fields must be written."""

    key: bytes
    state: State
    whole: bool = False
    """Write everything: the process is new to the view, or its content was replaced."""
    context_keys: frozenset[str] = field(default_factory=frozenset)
    """Context values that were set or removed (as they are in ``state``)."""
    messages: Sequence[Message] = ()
    """Messages that were added at the conversation's end."""


class Seen(NamedTuple):
    """What a reader finds of one process, in one call."""

    meta: ViewMeta | None
    state: State | None
    """None: the process is not in the view."""
    pointer: Pointer | None


class ViewStore(Protocol):
    """Keeps views. Blocking, thread safe. Every call raises ``ViewUnavailable`` if the store does not answer."""

    def meta(self, partition: int) -> ViewMeta | None:
        """The partition's view, None if there is none."""

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> tuple[int | None, dict[bytes, State]] | None:
        """The applied offset and the states of ``keys`` that are there, in one call (P2); None: another token."""

    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 is ``position``.

        One call, atomic. False: nothing was written (P3).
        """

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: an empty view with a fresh token and no applied offset, in one call (P1b). Its token."""

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Load states into a view that is being rebuilt. False if the token is another."""

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int) -> bool:
        """End a rebuild: the view is valid as of ``applied``. False if the token is another."""

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Say where checkpoints are (P6). False if the token is another."""

    def offsets_from(self, partition: int, token: str, floor: int) -> dict[bytes, int] | None:
        """Processes whose state's offset is at or above ``floor``, with that offset; None if the token is another."""

    def see(self, partition: int, key: bytes) -> Seen:
        """One process, its partition's meta and its pointer, in one call."""
