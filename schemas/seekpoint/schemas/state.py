"""The state of one process: what the fold makes of its entries.

``State`` is frozen: what is handed out never changes under its holder. ``Draft`` is the same thing while the fold
writes on it; ``thaw`` copies (shallow: values are immutable texts), ``freeze`` turns a draft into a state in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any
from uuid import UUID

import orjson

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.conversation import Conversation, Message
from seekpoint.schemas.entry import id_text
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.lifecycle import Lifecycle
from seekpoint.schemas.values import load

__all__ = ["COUNTERS", "FOLD_VERSION", "Degraded", "Draft", "Invocation", "Lineage", "MailItem", "State", "new_state"]

FOLD_VERSION = 1
"""Raised whenever the same entries give another state; written into every checkpoint."""

COUNTERS = (
    "stale_entries",
    "duplicate_entries",
    "forged_entries",
    "abandoned_entries",
    "lost_claims",
    "refused_externals",
)
"""What the fold noticed, counted; in neither hash."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """Why a person has to look: ``gap`` (owner entries are missing), ``illegal_transition`` or ``state_limit``."""

    reason: str
    expected_seq: int
    found_seq: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The invocation that is under way."""

    trigger: str
    payload_json: Json
    started: bool = False

    @property
    def payload(self) -> Any:
        """What the trigger carried, a fresh copy."""
        return load(self.payload_json)


@dataclass(frozen=True, slots=True)
class MailItem:
    """An external entry that waits for the owner."""

    id: bytes
    kind: str
    name: str
    payload_json: Json
    actor: str | None

    @property
    def payload(self) -> Any:
        """What was sent, a fresh copy."""
        return load(self.payload_json)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the content came from: the process that was forked, the seq that was last rewound to, how often."""

    parent_id: str | None = None
    parent_seq: int | None = None
    rewound_to_seq: int | None = None
    rewinds: int = 0


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
    "last_kind",
    "values_json",
    "conversation",
    "invocation",
    "invocations",
    "mailbox",
    "remembered",
    "lineage",
    "degraded",
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
    last_kind: str | None
    values_json: dict[str, Json]
    conversation: Conversation
    invocation: Invocation | None
    invocations: int
    mailbox: dict[bytes, MailItem]
    remembered: dict[bytes, None]
    lineage: Lineage
    degraded: Degraded | None
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
        self.finished = False
        self.result_json = self.last_kind = None
        self.values_json = {}
        self.conversation = Conversation()
        self.invocation = None
        self.invocations = 0
        self.mailbox = {}
        self.remembered = {}
        self.lineage = Lineage()
        self.degraded = None
        self.content_bytes = self.mailbox_bytes = 0
        for counter in COUNTERS:
            object.__setattr__(self, counter, 0)

    def freeze(self) -> State:
        """This very object, as a state. The draft is gone."""
        self.__class__ = State
        return self  # type: ignore[return-value]  # its class was just changed

    def snapshot(self) -> State:
        """A state as of now; the draft goes on."""
        return _copy(self, State)


class State(Draft):
    """What one process is after some entry. Equal states have equal hashes; ``offset`` says as of where.

    Read ``context``, ``conversation``, ``lifecycle``, ``seq``, ``epoch``, ``owner`` (a claim's id), ``mailbox``,
    ``degraded``, ``finished`` and ``result``; dynamic values are fresh copies, changing them changes nothing.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a state is frozen: {name} changes only through the process's own calls")

    @property
    def context(self) -> dict[str, Any]:
        """The context, decoded anew: a plain dict of the caller's own."""
        return {key: load(text) for key, text in self.values_json.items()}

    @property
    def result(self) -> Any:
        """What a finished process was finished with; None before."""
        return None if self.result_json is None else load(self.result_json)

    @property
    def hash(self) -> str:
        """BLAKE2b-128 of everything but offsets and counters: equal for every tier and every reader."""
        return _hash({**_content(self), **_ownership(self)})

    @property
    def content_hash(self) -> str:
        """BLAKE2b-128 of context, conversation, lifecycle and invocations: equal for a fork and its parent."""
        return _hash(_content(self))

    def thaw(self) -> Draft:
        """A draft that starts as this state."""
        return _copy(self, Draft)

    def content_json(self) -> Json:
        """What a rewind or a fork restores, as JSON text."""
        return orjson.dumps(_content(self), option=orjson.OPT_SORT_KEYS).decode()

    def to_bytes(self) -> bytes:
        """The whole state, for a checkpoint; ``from_bytes`` gives it back equal."""
        counters = {name: getattr(self, name) for name in COUNTERS}
        whole = {
            "fold_version": FOLD_VERSION,
            "content": _content(self),
            "ownership": _ownership(self),
            "offset": self.offset,
            "first_offset": self.first_offset,
            "counters": counters,
        }
        return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The state in ``data``. ``NewerFormat`` if a newer fold wrote it, ``JournalMismatch`` if it is none."""
        try:
            whole = orjson.loads(data)
            if whole["fold_version"] > FOLD_VERSION:
                raise NewerFormat("a state of a newer fold than this one", found=whole["fold_version"], known=FOLD_VERSION)
            draft = Draft()
            restore_content(draft, whole["content"])
            _restore_ownership(draft, whole["ownership"])
            draft.offset, draft.first_offset = whole["offset"], whole["first_offset"]
            for name, count in whole["counters"].items():
                setattr(draft, name, count)
            return draft.freeze()
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("bytes that are no state", cause=repr(exc)) from exc

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.seq, self.epoch, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return State.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        owner = id_text(self.owner)
        return f"State(lifecycle={str(self.lifecycle)!r}, seq={self.seq}, epoch={self.epoch}, owner={owner}, offset={self.offset})"


def new_state() -> State:
    """The state of a process without entries."""
    return Draft().freeze()


def _copy(source: Draft, kind: type[Any]) -> Any:
    copy = object.__new__(Draft)
    for name in _SLOTS:
        setattr(copy, name, getattr(source, name))
    copy.values_json = source.values_json.copy()
    copy.mailbox = source.mailbox.copy()
    copy.remembered = source.remembered.copy()
    copy.__class__ = kind
    return copy


def _hash(part: Mapping[str, Any]) -> str:
    return blake2b(orjson.dumps(part, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _content(state: Draft) -> dict[str, Any]:
    # Dynamic values stay the texts they are: whoever wrote them, they come back letter for letter.
    invocation = state.invocation
    return {
        "context": state.values_json,
        "conversation": [
            [m.role, m.text, m.parts_json, m.tool_calls_json, m.tool_call_id, m.name]
            for m in state.conversation
        ],
        "lifecycle": state.lifecycle,
        "invocations": state.invocations,
        "invocation": invocation and [invocation.trigger, invocation.payload_json, invocation.started],
    }


def _ownership(state: Draft) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "owner": id_text(state.owner),
        "owner_node": state.owner_node,
        "owner_boot": state.owner_boot,
        "seq": state.seq,
        "finished": state.finished,
        "result": state.result_json,
        "last_kind": state.last_kind,
        "mailbox": [
            [item.id.hex(), item.kind, item.name, item.payload_json, item.actor] for item in state.mailbox.values()
        ],
        "remembered": [one.hex() for one in state.remembered],
        "lineage": asdict(state.lineage),
        "degraded": state.degraded and asdict(state.degraded),
    }


def restore_content(draft: Draft, content: Mapping[str, Any]) -> None:
    """Put ``content`` (parsed from what ``content_json`` gave) into ``draft``. ValueError, KeyError or TypeError if it is none."""
    invocation = content["invocation"]
    draft.values_json = {_text(key): _text(text) for key, text in content["context"].items()}
    draft.conversation = Conversation(
        Message(_text(message[0]), *(part if part is None else _text(part) for part in message[1:]))
        for message in content["conversation"]
    )
    draft.lifecycle = Lifecycle(content["lifecycle"])
    draft.invocations = int(content["invocations"])
    if invocation is not None:
        trigger, payload_json, started = invocation
        draft.invocation = Invocation(_text(trigger), _text(payload_json), bool(started))
    draft.content_bytes = content_width(draft)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"text is wanted, not {type(value).__name__}")
    return value


def _restore_ownership(draft: Draft, ownership: Mapping[str, Any]) -> None:
    for name in ("epoch", "owner_node", "owner_boot", "seq", "finished", "last_kind"):
        setattr(draft, name, ownership[name])
    owner = ownership["owner"]
    draft.owner = owner and UUID(owner).bytes
    draft.result_json = ownership["result"]
    items = [MailItem(bytes.fromhex(item[0]), *item[1:]) for item in ownership["mailbox"]]
    draft.mailbox = {item.id: item for item in items}
    draft.mailbox_bytes = sum(item_width(item) for item in items)
    draft.remembered = dict.fromkeys(map(bytes.fromhex, ownership["remembered"]))
    draft.lineage = Lineage(**ownership["lineage"])
    draft.degraded = ownership["degraded"] and Degraded(**ownership["degraded"])


# --- widths: what a part takes in the state's JSON, so that a state within its limit can always be checkpointed --------
_MESSAGE_BYTES = 40  # brackets, commas and nulls of a message or a context value, rounded up


def text_width(text: str | None) -> int:
    """The bytes ``text`` takes as a JSON string."""
    return 4 if text is None else len(orjson.dumps(text))


def value_width(key: str, text: Json) -> int:
    """The bytes of one context value."""
    return text_width(key) + text_width(text) + 2


def message_width(message: Message) -> int:
    """The bytes of one message."""
    width = _MESSAGE_BYTES + text_width(message.role) + text_width(message.text)
    for part in (message.parts_json, message.tool_calls_json, message.tool_call_id, message.name):
        if part is not None:
            width += text_width(part)
    return width


def item_width(item: MailItem) -> int:
    """The bytes of one waiting external entry."""
    return 2 * _MESSAGE_BYTES + text_width(item.name) + text_width(item.payload_json) + text_width(item.actor)


def content_width(draft: Draft) -> int:
    """The bytes of all context values and messages of ``draft``."""
    values = sum(value_width(key, text) for key, text in draft.values_json.items())
    return values + sum(map(message_width, draft.conversation))
