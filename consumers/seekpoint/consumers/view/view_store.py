"""The port through which projectors write views and readers read them. ``MemoryView`` is the version in memory.

A view of a journal partition is an **applied** offset and every process's state as of it. States and offset change in
one call (P3), which a **token** guards. Each rebuild makes a new token, which is part of all keys, so that a projector
of the former view changes nothing any more (P1b).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import field

from seekpoint.consumers.view.process_summary import Summary
from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.process_state import State


class ViewMeta(NamedTuple):
    """The meta data of one partition's view. ``applied`` is None during a rebuild, and -1 if nothing is applied yet."""

    token: str
    applied: int | None
    topic_id: str
    leader_epoch: int
    """Of the record at ``applied``; -1 if it is unknown."""


class Pointer(NamedTuple):
    """The position of a checkpoint, and the floor of the transaction that wrote it. Use neither without the other."""

    position: int
    floor: int


class Change(FrozenStruct, frozen=True, kw_only=True):
    """The change of one process by a batch: ``state`` is the state after it, the rest says which fields to write."""

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
    digests: frozenset[str] = field(default_factory=frozenset)
    """Attachments of which a part was written, or that were detached (as they are in ``state``)."""
    frames: bool = False
    """Write the frames that a resume starts from: an agent started, or one of its turns ended."""
    folds: bool = False
    """Write the results of users' folds: a custom entry was applied, or the results were computed again."""
    messages: Sequence[MessageSaid] = ()
    """Messages that were added at the conversation's end."""
    mail: bool = True
    """Write the mailbox and the remembered ids: up to 1 MiB. False only if both are as they were."""


class ViewLookup(NamedTuple):
    """One process in the view, read in one call."""

    meta: ViewMeta | None
    state: State | None
    """None: the process is not in the view, or its row is damaged."""
    pointer: Pointer | None
    damage: str | None = None
    """Why the process's row may not be used; None: it is intact."""


class Loaded(NamedTuple):
    """Several processes in the view, read in one call."""

    applied: int | None
    states: Mapping[bytes, State]
    """The states of the processes that the view has."""
    damaged: Mapping[bytes, str] = MappingProxyType({})
    """By key: why the process's row may not be used."""


class Page(NamedTuple):
    """A page of a partition's processes, by key."""

    meta: ViewMeta | None
    summaries: Sequence[Summary]


class ViewStore(Protocol):
    """Stores views. Blocking, thread safe. Every call raises ``ViewUnavailable`` if the store does not answer.

    If a view lost one of its indexes, every call answers as if there were no view, or one with another token. A process
    whose row does not have its hash is ``damaged``: no call returns anything of the row, and the other processes are
    not affected. The hash has no secret: a client that can write to the store can make a row with a valid hash.
    """

    @property
    def is_loaded(self) -> bool:
        """Whether the store's client library is loaded. If not, the first call loads it."""

    def load_client(self) -> None:
        """Load the store's client library ahead of the first call."""

    def meta(self, partition: int) -> ViewMeta | None:
        """Return the meta data of the partition's view; None if there is no view."""

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded | None:
        """Return the applied offset and the present states of ``keys``, in one call (P2); None: another token."""

    def write(
        self, partition: int, token: str, position: int, applied: int, leader_epoch: int, changes: Sequence[Change]
    ) -> bool:
        """Write ``changes`` and set ``applied``, if the token is this one and the view's applied + 1 is ``position``.

        One call, atomic. False: nothing was written (P3).
        """

    def install(self, partition: int, topic_id: str) -> str:
        """Begin a rebuild: make an empty view without an applied offset, in one call (P1b). Return its new token."""

    def put(self, partition: int, token: str, states: Mapping[bytes, tuple[State, Pointer]]) -> bool:
        """Write states into a view during its rebuild. Return False if the token is another, or the view is ready."""

    def ready(self, partition: int, token: str, applied: int, leader_epoch: int, processes: int | None = None) -> bool:
        """End a rebuild: make the view valid as of ``applied``. Return False if the token is another.

        ``processes`` is the number of processes that were put. Return False also if the view has not so many: a
        failover lost some. A second call returns True again, unless entries were applied meanwhile: then it returns
        False and changes nothing.
        """

    def point(self, partition: int, token: str, pointers: Mapping[bytes, Pointer]) -> bool:
        """Write pointers to checkpoints (P6). Return False if the token is another."""

    def offsets_from(
        self, partition: int, token: str, floor: int, applied: int | None = None
    ) -> dict[bytes, int] | None:
        """Return the processes whose state's offset is at or above ``floor``, with that offset; None: another token.

        With ``applied``, return None also if the view is at another offset.
        """

    def finished(self, partition: int, token: str, start: int, stop: int, count: int) -> tuple[list[bytes], int] | None:
        """Return finished processes with content among the first ``count`` processes with an offset in [start, stop).

        Return with them the offset to go on from, which is ``stop`` at the end. Return None if the token is another.
        """

    def look_up(self, partition: int, key: bytes) -> ViewLookup:
        """Return one process, its partition's meta data and its pointer, in one call."""

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        """Return the first ``count`` processes whose keys begin with ``prefix`` and come after ``after``, by key.

        ``open_only``: only the processes that have not finished, without shared values, from an index: however many
        processes have finished, they cost nothing. Pages of several calls may be as of different offsets: the entries
        after the ``applied`` of the first page say what changed meanwhile.

        It reads only summaries. If one is damaged, the page has no meta data and no processes, so that no process is
        missing silently.
        """

    def newest_page(self, partition: int, below: int | None, count: int) -> Page:
        """Return the ``count`` processes with the newest entries below the offset ``below``, the newest first.

        A process that goes on during several calls is at a higher offset then, and may be in none of their pages. A
        damaged summary is treated as in ``page``.
        """


class ViewBrowser(ViewStore, Protocol):
    """A ``ViewStore`` with the calls that the public ``View`` needs in addition."""

    def partitions(self) -> int:
        """Return the journal's number of partitions."""

    def offset_of(self, partition: int, key: bytes) -> tuple[ViewMeta | None, int | None]:
        """Return the partition's meta data and the offset of the process's state, if it has one, in one small call."""

    def close(self) -> None:
        """Close the connections. Idempotent."""
