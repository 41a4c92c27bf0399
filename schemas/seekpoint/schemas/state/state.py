"""The state of one process: what the fold makes of its entries.

``State`` is frozen: what is handed out never changes under its holder. ``Draft`` is the same thing while the fold
writes on it; ``thaw`` copies (shallow: values are immutable texts), ``freeze`` turns a draft into a state in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import orjson

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.folds import Folded, folded
from seekpoint.schemas.state.call_table import Calls, CallsDraft
from seekpoint.schemas.state.calls import IN_DOUBT, AgentRun, Call, Frame, Obligation
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.migrations import FOLD_VERSION, converted
from seekpoint.schemas.state.process_budget import Budget
from seekpoint.schemas.state.state_json import (
    COUNTERS,
    content_of,
    counters_of,
    folds_of,
    ownership_of,
    restore_content,
    restore_whole,
)
from seekpoint.schemas.state.state_parts import Degraded, Failure, InvocationState, Lineage, MailItem
from seekpoint.schemas.state.state_sizes import content_width
from seekpoint.schemas.values.json_values import load

__all__ = [
    "COUNTERS",
    "FOLD_VERSION",
    "Degraded",
    "Draft",
    "InvocationState",
    "Lineage",
    "MailItem",
    "State",
    "drop_content",
    "frame_of",
    "new_state",
    "restore_content",
]

_SLOTS = (
    "offset",
    "first_offset",
    "epoch",
    "owner",
    "owner_node",
    "owner_boot",
    "seq",
    "lifecycle",
    "finished",
    "result_json",
    "content_dropped",
    "last_kind",
    "values_json",
    "conversation",
    "invocation",
    "invocations",
    "mailbox",
    "remembered",
    "lineage",
    "degraded",
    "failure",
    "agent",
    "calls",
    "turn",
    "start_frame",
    "turn_frame",
    "obligations",
    "patches",
    "cancelled",
    "budget",
    "forgotten",
    "shared_version",
    "shared_json",
    "folds",
    "customs",
    "content_bytes",
    "mailbox_bytes",
    *COUNTERS,
)


class Draft:
    """A state that is being written. Only the fold holds one."""

    __slots__ = _SLOTS

    offset: int
    first_offset: int | None
    epoch: int
    owner: bytes | None
    owner_node: str | None
    owner_boot: str | None
    seq: int
    lifecycle: Lifecycle
    finished: bool
    result_json: Json | None
    content_dropped: bool
    """Of a finished process: only its gravestone is left."""
    last_kind: str | None
    values_json: dict[str, Json]
    conversation: Conversation
    invocation: InvocationState | None
    invocations: int
    mailbox: dict[bytes, MailItem]
    remembered: dict[bytes, None]
    lineage: Lineage
    degraded: Degraded | None
    failure: Failure | None
    agent: AgentRun | None
    calls: CallsDraft
    turn: int
    start_frame: Frame | None
    turn_frame: Frame | None
    obligations: tuple[Obligation, ...]
    patches: tuple[str, ...]
    cancelled: str | None
    budget: Budget | None
    forgotten: dict[str, int]
    shared_version: int
    shared_json: Json | None
    folds: Mapping[str, Folded]
    """Never written on: a fold that goes on puts another mapping there."""
    customs: int
    """Custom entries that were applied, which is what the folds have to have seen."""
    content_bytes: int
    mailbox_bytes: int
    stale_entries: int
    duplicate_entries: int
    forged_entries: int
    abandoned_entries: int
    lost_claims: int
    refused_externals: int

    def __init__(self) -> None:
        self.offset = -1
        self.first_offset = None
        self.epoch = 0
        self.owner = self.owner_node = self.owner_boot = None
        self.seq = 0
        self.lifecycle = Lifecycle.CREATED
        self.finished = self.content_dropped = False
        self.result_json = self.last_kind = None
        self.values_json = {}
        self.conversation = Conversation()
        self.invocation = None
        self.invocations = 0
        self.mailbox = {}
        self.remembered = {}
        self.lineage = _NO_LINEAGE
        self.degraded = self.failure = None
        self.agent = None
        self.calls = CallsDraft()
        self.turn = 0
        self.start_frame = self.turn_frame = None
        self.obligations = ()
        self.patches = ()
        self.cancelled = None
        self.budget = None
        self.forgotten = {}
        self.shared_version = 0
        self.shared_json = None
        self.folds = _NO_FOLDS
        self.customs = 0
        self.content_bytes = self.mailbox_bytes = 0
        self.stale_entries = self.duplicate_entries = self.forged_entries = 0
        self.abandoned_entries = self.lost_claims = self.refused_externals = 0

    def freeze(self) -> State:
        """This very object, as a state. The draft is gone."""
        self.__class__ = State
        return self  # type: ignore[return-value]  # its class was just changed

    def snapshot(self) -> State:
        """A state as of now; the draft goes on."""
        return _copy(self).freeze()


_NO_LINEAGE = Lineage()
_NO_FOLDS: Mapping[str, Folded] = MappingProxyType({})


class State(Draft):
    """What one process is after some entry. Equal states have equal hashes; ``offset`` says as of where.

    Read ``context``, ``conversation``, ``lifecycle``, ``seq``, ``epoch``, ``owner`` (a claim's id), ``mailbox``,
    ``degraded``, ``finished`` and ``result``; dynamic values are fresh copies, changing them changes nothing.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a state is frozen: {name} changes only through the process's own calls")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a state is frozen: {name} stays")

    @property
    def context(self) -> dict[str, Any]:
        """The context, decoded anew: a plain dict of the caller's own."""
        return {key: load(text) for key, text in self.values_json.items()}

    # What a draft may write on is looked at through a window.
    @property
    def values_json(self) -> Mapping[str, Json]:  # type: ignore[override]  # read-only on purpose
        """The context's values as the JSON texts they are, read-only."""
        return MappingProxyType(_values_slot.__get__(self))

    @property
    def mailbox(self) -> Mapping[bytes, MailItem]:  # type: ignore[override]  # read-only on purpose
        """The external entries that wait for the owner, by id, oldest first; read-only."""
        return MappingProxyType(_mailbox_slot.__get__(self))

    @property
    def remembered(self) -> Mapping[bytes, None]:  # type: ignore[override]  # read-only on purpose
        """The ids of the newest external entries, which are taken once; read-only."""
        return MappingProxyType(_remembered_slot.__get__(self))

    @property
    def calls(self) -> Calls:  # type: ignore[override]  # read-only on purpose
        """What is remembered of the calls the agent's code made, by key; read-only."""
        written: CallsDraft = _calls_slot.__get__(self)
        return written.window()

    @property
    def forgotten(self) -> Mapping[str, int]:  # type: ignore[override]  # read-only on purpose
        """How often a rewind forgot a call, by key; read-only."""
        return MappingProxyType(_forgotten_slot.__get__(self))

    @property
    def folds(self) -> Mapping[str, Folded]:  # type: ignore[override]  # read-only on purpose
        """What folds of users made of it, as it is kept: current or not. ``folded`` tells the value; read-only."""
        return MappingProxyType(_folds_slot.__get__(self))

    def folded(self, name: str) -> Any:
        """The value of the fold ``name``, as every other reader has it; a fresh copy.

        ``FoldUnavailable`` where it is not registered, failed, or what is kept is not current: never an old value.
        """
        return folded(self, name)

    @property
    def open_calls(self) -> Mapping[str, Call]:
        """Return the calls that began and have no outcome, by key: a resumed run goes on there."""
        if self.finished:
            return {}
        calls = _calls_slot.__get__(self)
        return {key: call for key, call in calls.items() if call.status in _OPEN}

    @property
    def in_doubt(self) -> Mapping[str, Call]:
        """Return the open calls whose body may or may not have run, by key: steps, decisions and effects."""
        return {key: call for key, call in self.open_calls.items() if call.kind not in _WAITS}

    @property
    def waits_for(self) -> Mapping[str, Call]:
        """Return the open calls that only wait, by key: timers, gates and children."""
        return {key: call for key, call in self.open_calls.items() if call.kind in _WAITS}

    @property
    def first_in_doubt(self) -> str | None:
        """Return the key of the earliest call that is in doubt; None if there is none."""
        in_doubt = self.in_doubt
        return min(in_doubt, key=lambda key: in_doubt[key].seq, default=None)

    @property
    def shared(self) -> Any:
        """The value of a shared value's process, a fresh copy; None where it was never set."""
        return None if self.shared_json is None else load(self.shared_json)

    @property
    def result(self) -> Any:
        """What a finished process was finished with; None before."""
        return None if self.result_json is None else load(self.result_json)

    @property
    def hash(self) -> str:
        """BLAKE2b-128 of everything but offsets and counters: equal for every tier and every reader.

        Of a finished process it is the gravestone's, whether the content is still kept beside it or not.
        """
        of = self.without_content() if self.finished and not self.content_dropped else self
        return _hash({**content_of(of), **ownership_of(of)})

    @property
    def content_hash(self) -> str:
        """BLAKE2b-128 of context, conversation, lifecycle, invocations, calls: equal for a fork and its parent."""
        return _hash(content_of(self))

    def without_content(self) -> State:
        """Return what stays of a finished process for ever: its gravestone. ``content_dropped`` says so."""
        draft = self.thaw()
        drop_content(draft)
        return draft.freeze()

    def thaw(self) -> Draft:
        """A draft that starts as this state."""
        return _copy(self)

    def content_json(self) -> Json:
        """What a rewind or a fork restores, as JSON text."""
        return orjson.dumps(content_of(self), option=orjson.OPT_SORT_KEYS).decode()

    def to_bytes(self) -> bytes:
        """The whole state, for a checkpoint; ``from_bytes`` gives it back equal."""
        whole = {
            "fold_version": FOLD_VERSION,
            "content": content_of(self),
            "ownership": ownership_of(self),
            "offset": self.offset,
            "first_offset": self.first_offset,
            "counters": counters_of(self),
            **folds_of(self),
        }
        return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The state in ``data``; one that an older fold wrote is converted.

        ``NewerFormat`` if a newer fold wrote it, ``JournalMismatch`` if it is none, or cannot be converted.
        """
        try:
            draft = Draft()
            restore_whole(draft, converted(orjson.loads(data), FOLD_VERSION))
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("bytes that are no state", cause=repr(exc)[:200]) from exc
        return draft.freeze()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.seq, self.epoch, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return State.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        owner = id_text(self.owner)
        return (
            f"State(lifecycle={str(self.lifecycle)!r}, seq={self.seq}, epoch={self.epoch}, owner={owner}, "
            f"offset={self.offset})"
        )


_OPEN = frozenset({"started", *IN_DOUBT})
_WAITS = frozenset({"timer", "gate", "child"})
"""Kinds of calls that have no body: while one is open nothing happened that could be in doubt."""
_values_slot: Any = Draft.values_json
_calls_slot: Any = Draft.calls
_forgotten_slot: Any = Draft.forgotten
_folds_slot: Any = Draft.folds
_mailbox_slot: Any = Draft.mailbox
_remembered_slot: Any = Draft.remembered


def new_state() -> State:
    """The state of a process without entries."""
    return Draft().freeze()


def frame_of(draft: Draft) -> Frame:
    """What a resume from here starts with."""
    return Frame(draft.values_json.copy(), len(draft.conversation), draft.invocations, draft.invocation)


def drop_content(draft: Draft) -> None:
    """Leave the gravestone of a finished process: lifecycle, epoch, seq, offset, counters, result, and which agent ran,
    with the digest of its input."""
    bare = Draft()
    for name in _CONTENT:
        setattr(draft, name, getattr(bare, name))
    draft.agent = None if draft.agent is None else draft.agent.without_input()
    draft.content_dropped = True
    draft.content_bytes = content_width(draft)


_CONTENT = (
    *("values_json", "conversation", "invocation", "invocations", "calls", "turn", "start_frame", "turn_frame"),
    *("obligations", "patches", "cancelled", "budget", "forgotten", "failure", "lineage"),
    *("shared_version", "shared_json"),
)


def _copy(source: Draft) -> Draft:
    """Written out, as ``__init__`` is: a loop over the slots takes five times as long. A test compares every slot."""
    copy = object.__new__(Draft)
    copy.offset = source.offset
    copy.first_offset = source.first_offset
    copy.epoch = source.epoch
    copy.owner = source.owner
    copy.owner_node = source.owner_node
    copy.owner_boot = source.owner_boot
    copy.seq = source.seq
    copy.lifecycle = source.lifecycle
    copy.finished = source.finished
    copy.result_json = source.result_json
    copy.content_dropped = source.content_dropped
    copy.last_kind = source.last_kind
    copy.values_json = source.values_json.copy()
    copy.conversation = source.conversation
    copy.invocation = source.invocation
    copy.invocations = source.invocations
    copy.mailbox = source.mailbox.copy()
    copy.remembered = source.remembered.copy()
    copy.lineage = source.lineage
    copy.degraded = source.degraded
    copy.failure = source.failure
    copy.agent = source.agent
    copy.calls = _calls_slot.__get__(source).draft()
    copy.turn = source.turn
    copy.start_frame = source.start_frame
    copy.turn_frame = source.turn_frame
    copy.obligations = source.obligations
    copy.patches = source.patches
    copy.cancelled = source.cancelled
    copy.budget = source.budget
    copy.forgotten = source.forgotten.copy()
    copy.shared_version = source.shared_version
    copy.shared_json = source.shared_json
    copy.folds = _folds_slot.__get__(source)
    copy.customs = source.customs
    copy.content_bytes = source.content_bytes
    copy.mailbox_bytes = source.mailbox_bytes
    copy.stale_entries = source.stale_entries
    copy.duplicate_entries = source.duplicate_entries
    copy.forged_entries = source.forged_entries
    copy.abandoned_entries = source.abandoned_entries
    copy.lost_claims = source.lost_claims
    copy.refused_externals = source.refused_externals
    return copy


def _hash(part: Mapping[str, Any]) -> str:
    return blake2b(orjson.dumps(part, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
