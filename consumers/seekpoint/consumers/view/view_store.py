"""Where a view is kept: the port between the projector and Redis. ``MemoryView`` is its twin.

A view is, a journal partition: an **applied** offset, and every process's state as of it. State and offset change in
one call (P3), guarded by a **token**: a fresh one for every rebuild, and part of all keys, so that whoever was at work
on the view before it changes nothing any more (P1b).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import field

from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

__all__ = [
    "Change",
    "Loaded",
    "Page",
    "Pointer",
    "Seen",
    "Summary",
    "ViewBrowser",
    "ViewMeta",
    "ViewStore",
    "summary_of",
]


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


class Change(FrozenStruct, frozen=True, kw_only=True):
    """What a batch did to one process. ``state`` is the state after it; the rest says which fields must be written."""

    key: bytes
    state: State
    whole: bool = False
    """Write everything: the process is new to the view, or its content was replaced."""
    base: State | None = None
    """The state before the batch, as the view has it. None if ``whole``."""
    context_keys: frozenset[str] = field(default_factory=frozenset)
    """Context values that were set or removed (as they are in ``state``)."""
    call_keys: frozenset[str] = field(default_factory=frozenset)
    """Calls that were made, answered or forgotten (as they are in ``state``)."""
    frames: bool = False
    """Write what a resume starts from: an agent began, or one of its turns ended."""
    folds: bool = False
    """Write what users' folds made of it: a custom entry was applied, or results were made anew."""
    messages: Sequence[MessageSaid] = ()
    """Messages that were added at the conversation's end."""
    mail: bool = True
    """Write the mailbox and the remembered ids: up to 1 MiB. False only if both are as they were."""


class Seen(NamedTuple):
    """What a reader finds of one process, in one call."""

    meta: ViewMeta | None
    state: State | None
    """None: the process is not in the view, or its row is damaged."""
    pointer: Pointer | None
    damage: str | None = None
    """Why the process's row may not be used; None: it is whole."""


class Loaded(NamedTuple):
    """What a projector finds of several processes, in one call."""

    applied: int | None
    states: Mapping[bytes, State]
    """Of those that are there."""
    damaged: Mapping[bytes, str] = MappingProxyType({})
    """Of those whose row may not be used: why."""


class Summary(FrozenStruct, frozen=True, kw_only=True):
    """One process in a list, as of its view: what can be said without reading its content."""

    process_id: str
    partition: int
    lifecycle: Lifecycle
    epoch: int
    owner: bytes | None
    """The claim it is owned by; None: nobody's."""
    owner_node: str | None
    seq: int
    offset: int
    """Of the newest entry that was folded."""
    last_kind: str | None
    finished: bool
    degraded: str | None
    """Why a person has to look: the reason of ``Degraded``."""
    messages: int
    """In its conversation."""
    values: int
    """In its context."""


class Page(NamedTuple):
    """Some processes of a partition, by key."""

    meta: ViewMeta | None
    summaries: Sequence[Summary]


class ViewStore(Protocol):
    """Keeps views. Blocking, thread safe. Every call raises ``ViewUnavailable`` if the store does not answer.

    A view that lost one of its indexes is no view: what finds it so answers as if there were none, or another token.
    A process whose row does not have its hash is ``damaged``: nothing of the row is handed out, the others are as good
    as ever. The hash has no secret: whoever can write to the store can make a row that has it.
    """

    @property
    def is_loaded(self) -> bool:
        """Whether the store's client library is loaded. If not, the first call loads it."""

    def load_client(self) -> None:
        """Load the store's client library ahead of the first call."""

    def meta(self, partition: int) -> ViewMeta | None:
        """The partition's view, None if there is none."""

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
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
        """Load states into a view that is being rebuilt. False if the token is another, or the view is ready."""

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: the view is valid as of ``applied``. False if the token is another.

        ``processes`` is how many were put: False too if there are not so many (a failover lost the last of them).
        Asked again it says True again, unless something was applied meanwhile: then False, and nothing is changed.
        """

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Say where checkpoints are (P6). False if the token is another."""

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Processes whose state's offset is at or above ``floor``, with that offset; None if the token is another.

        With ``applied``: None too if the view is not just there.
        """

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes whose content is kept, of the ``count`` first whose offset is in [start, stop).

        And the offset to go on from, ``stop`` where there are no more. None if the token is another.
        """

    def see(self, partition: int, key: bytes) -> Seen:
        """One process, its partition's meta and its pointer, in one call."""


class ViewBrowser(ViewStore, Protocol):
    """What the public ``View`` asks of a store besides."""

    def partitions(self) -> int:
        """How many partitions the journal has."""

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """The partition's meta and the offset of the process's state, if it is there, in one small call."""

    def page(self, partition: int, after: bytes, prefix: bytes, count: int) -> Page:
        """The ``count`` first processes whose keys begin with ``prefix`` and come after ``after``, by key.

        No conversation and no context is read. A damaged head makes it a page of no view: nothing is left out silently.
        """

    def close(self) -> None:
        """Give up connections. Idempotent."""


def summary_of(partition: int, key: bytes, state: State) -> Summary:
    """What a list says of ``state``."""
    return Summary(
        process_id=key.decode(),
        partition=partition,
        lifecycle=state.lifecycle,
        epoch=state.epoch,
        owner=state.owner,
        owner_node=state.owner_node,
        seq=state.seq,
        offset=state.offset,
        last_kind=state.last_kind,
        finished=state.finished,
        degraded=None if state.degraded is None else state.degraded.reason,
        messages=len(state.conversation),
        values=len(state.values_json),
    )
