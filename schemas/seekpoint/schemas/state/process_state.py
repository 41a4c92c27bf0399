"""The state of one process: what the fold computes from its entries.

``Draft`` declares the fields of a state, one line each; constructor, copy, JSON, sizes and masks follow from that
table. A ``State`` is frozen: what is handed out never changes under its holder. A ``Draft`` has the same fields and is
what the fold writes on; ``thaw`` copies a state into a draft, ``freeze`` turns a draft into a state in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, ClassVar

import orjson

from seekpoint.schemas.bodies import Deleted, Json
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.errors import EffectUnknown, JournalMismatch
from seekpoint.schemas.folds import Folded, folded
from seekpoint.schemas.state import state_json as form
from seekpoint.schemas.state.budget_sums import Budget
from seekpoint.schemas.state.call_table import Calls, CallsDraft
from seekpoint.schemas.state.calls import AgentRun, Call, Frame, Obligation, input_digest
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.migrations import FOLD_VERSION, converted
from seekpoint.schemas.state.state_parts import (
    Attachment,
    Degraded,
    Failure,
    HoldRequest,
    InvocationState,
    Lineage,
    MailItem,
    RedriveRequest,
    RunFailures,
    Submission,
)
from seekpoint.schemas.state.state_table import Cleared, Section, StateTable, field, state_class
from seekpoint.schemas.state.state_values import encoded, size_of, text_width
from seekpoint.schemas.values.json_values import load

__all__ = [
    "COUNTERS",
    "FIELDS",
    "FOLD_VERSION",
    "Degraded",
    "Draft",
    "InvocationState",
    "Lineage",
    "MailItem",
    "State",
    "clear",
    "content_width",
    "drop_content",
    "frame_of",
    "mailbox_width",
    "new_state",
    "restore_content",
]

_CONTENT, _OWNERSHIP, _WHOLE = Section.CONTENT, Section.OWNERSHIP, Section.WHOLE
_COUNTERS, _COMPUTED = Section.COUNTERS, Section.COMPUTED
_AT_THE_END, _WITH_CONTENT = Cleared.AT_THE_END, Cleared.WITH_CONTENT
_NO_LINEAGE = Lineage()
_NO_FOLDS: Mapping[str, Folded] = MappingProxyType({})


@state_class
class Draft:
    """A state that is being written. Only the fold holds one. Its fields are the table of all that a state has."""

    TABLE: ClassVar[StateTable]

    # --- where in the log
    offset: int = field(-1, _WHOLE, form.INTEGER, always=True)
    first_offset: int | None = field(None, _WHOLE, form.INTEGER, always=True)
    started_us: int = field(0, _WHOLE, form.INTEGER)
    """The time of the first entry, by its writer's clock, in microseconds since 1970. No rule of the fold depends on a
    time: times are kept for people."""
    updated_us: int = field(0, _WHOLE, form.INTEGER)
    """The time of the newest entry that changed the state. One that is refused leaves it as it is."""
    lifecycle_us: int = field(0, _WHOLE, form.INTEGER)
    """The time of the entry that set the lifecycle; 0: none has."""
    awaits: str | None = field(None, _WHOLE, form.text("awaits"), cleared=_AT_THE_END)
    """The reason that a waiting process has given for it: the signal that its code receives."""

    # --- content: what a rewind or a fork restores
    values_json: dict[str, Json] = field(
        dict, _CONTENT, form.VALUES, key="context", always=True, copied="copy", apart=True, cleared=_WITH_CONTENT
    )
    conversation: Conversation = field(
        Conversation, _CONTENT, form.CONVERSATION, always=True, apart=True, cleared=_WITH_CONTENT
    )
    lifecycle: Lifecycle = field(Lifecycle.CREATED, _CONTENT, form.LIFECYCLE, always=True)
    invocations: int = field(0, _CONTENT, form.COUNT, always=True, cleared=_WITH_CONTENT)
    invocation: InvocationState | None = field(None, _CONTENT, form.INVOCATION, always=True, cleared=_WITH_CONTENT)
    calls: CallsDraft = field(
        CallsDraft, _CONTENT, form.CALLS, copied="draft", apart=True, image=form.EFFECTS, cleared=_WITH_CONTENT
    )
    last_call: str | None = field(None, _CONTENT, form.LAST_CALL, cleared=_WITH_CONTENT)
    """The key of the newest call that began or ended, cut to 200 characters. Content writes do not count."""
    turn: int = field(0, _CONTENT, form.COUNT, cleared=_WITH_CONTENT)
    patches: tuple[str, ...] = field((), _CONTENT, form.PATCHES, cleared=_WITH_CONTENT)
    start_frame: Frame | None = field(None, _CONTENT, form.FRAME, apart=True, cleared=_WITH_CONTENT)
    turn_frame: Frame | None = field(None, _CONTENT, form.FRAME, apart=True, cleared=_WITH_CONTENT)

    # --- ownership: who owns the process, its mail, and what no rewind or fork carries
    epoch: int = field(0, _OWNERSHIP, form.COUNT, always=True)
    owner: bytes | None = field(None, _OWNERSHIP, form.OWNER, always=True, cleared=_AT_THE_END)
    owner_node: str | None = field(None, _OWNERSHIP, form.text("node_id"), always=True, cleared=_AT_THE_END)
    owner_boot: str | None = field(None, _OWNERSHIP, form.text("boot_id"), always=True, cleared=_AT_THE_END)
    seq: int = field(0, _OWNERSHIP, form.COUNT, always=True)
    finished: bool = field(False, _OWNERSHIP, form.FLAG, always=True)
    result_json: Json | None = field(None, _OWNERSHIP, form.json_text("result"), key="result", always=True)
    content_dropped: bool = field(False, _OWNERSHIP, form.FLAG, key="dropped")
    """Of a finished process: only its gravestone is left."""
    deleted_seq: int = field(0, _OWNERSHIP, form.COUNT)
    """The seq of the newest deletion; 0: the process was never deleted. Nothing from before it is in the state."""
    last_kind: str | None = field(None, _OWNERSHIP, form.TEXT, always=True)
    mailbox: dict[bytes, MailItem] = field(
        dict, _OWNERSHIP, form.MAILBOX, always=True, copied="copy", apart=True, cleared=_AT_THE_END
    )
    remembered: dict[bytes, None] = field(
        dict, _OWNERSHIP, form.REMEMBERED, always=True, copied="copy", apart=True, cleared=_AT_THE_END
    )
    mail_seen: bytes | None = field(None, _OWNERSHIP, form.OWNER, cleared=_AT_THE_END)
    """The newest item of the mailbox that the code of the last owner has looked at and left, as its release says."""
    lineage: Lineage = field(_NO_LINEAGE, _OWNERSHIP, form.LINEAGE, always=True)
    degraded: Degraded | None = field(None, _OWNERSHIP, form.DEGRADED, always=True, cleared=_AT_THE_END)
    agent: AgentRun | None = field(None, _OWNERSHIP, form.AGENT)
    submission: Submission | None = field(None, _OWNERSHIP, form.SUBMISSION, cleared=_AT_THE_END)
    """The run that was submitted and has not begun."""
    hold: HoldRequest | None = field(None, _OWNERSHIP, form.HOLD, cleared=_AT_THE_END)
    redrive: RedriveRequest | None = field(None, _OWNERSHIP, form.REDRIVE, cleared=_AT_THE_END)
    owner_deaths: int = field(0, _OWNERSHIP, form.COUNT, cleared=_AT_THE_END)
    """How many owners of the agent's process died since a call ended, or one that only waits began."""
    run_failures: RunFailures | None = field(None, _OWNERSHIP, form.RUN_FAILURES, cleared=_WITH_CONTENT)
    obligations: tuple[Obligation, ...] = field((), _OWNERSHIP, form.OBLIGATIONS, cleared=_WITH_CONTENT)
    cancelled: str | None = field(None, _OWNERSHIP, form.text("reason"), cleared=_WITH_CONTENT)
    budget: Budget | None = field(None, _OWNERSHIP, form.BUDGET, cleared=_WITH_CONTENT)
    forgotten: dict[str, int] = field(
        dict, _OWNERSHIP, form.FORGOTTEN, copied="copy", restored=True, cleared=_WITH_CONTENT
    )
    failure: Failure | None = field(None, _OWNERSHIP, form.FAILURE, cleared=_WITH_CONTENT)
    shared_version: int = field(0, _OWNERSHIP, form.COUNT, cleared=_WITH_CONTENT)
    shared_json: Json | None = field(None, _OWNERSHIP, form.json_text("value", text_width), cleared=_WITH_CONTENT)

    # --- attachments: what the state has of large values
    attachments: dict[str, Attachment] = field(
        dict, _OWNERSHIP, form.ATTACHMENTS, copied="copy", apart=True, cleared=_WITH_CONTENT
    )
    attached_at: dict[str, tuple[int, ...]] = field(
        dict, _WHOLE, form.OFFSETS, copied="copy", apart=True, cleared=_WITH_CONTENT
    )
    """By digest: the offsets of the entries that have the parts of an attachment. No hash compares them, so that a copy
    of the journal has the same states. An owner's own state has lower ones for parts that it has just written."""

    # --- folds of users' own
    folds: Mapping[str, Folded] = field(_NO_FOLDS, _WHOLE, form.FOLDS, apart=True, cleared=_AT_THE_END)
    """Read-only: a fold that goes on puts another mapping there."""
    customs: int = field(0, _WHOLE, form.COUNT, cleared=_AT_THE_END)
    """Custom entries that were applied, which is what the folds have to have seen."""

    # --- what the fold noticed, counted
    stale_entries: int = field(0, _COUNTERS, form.COUNT, always=True)
    duplicate_entries: int = field(0, _COUNTERS, form.COUNT, always=True)
    forged_entries: int = field(0, _COUNTERS, form.COUNT, always=True)
    abandoned_entries: int = field(0, _COUNTERS, form.COUNT, always=True)
    lost_claims: int = field(0, _COUNTERS, form.COUNT, always=True)
    refused_externals: int = field(0, _COUNTERS, form.COUNT, always=True)

    # --- sizes
    content_bytes: int = field(0, _COMPUTED, form.COUNT)
    mailbox_bytes: int = field(0, _COMPUTED, form.COUNT, cleared=_AT_THE_END)
    attached_bytes: int = field(0, _COMPUTED, form.COUNT, cleared=_WITH_CONTENT)
    """The size of all attachments together."""

    @property
    def call_seq(self) -> int:
        """Return ``seq`` as calls have it: after those of all inherited calls."""
        return self.seq + self.lineage.seq_base

    @property
    def is_deleted(self) -> bool:
        """Whether the process was deleted and nothing was written to it since: readers find no such process.

        Behind a gap something was written that is lost: a person has to see that.
        """
        return self.last_kind == Deleted.KIND and self.degraded is None

    def freeze(self) -> State:
        """Turn this very object into a state. The draft is gone."""
        self.__class__ = State
        return self  # type: ignore[return-value]  # its class was just changed

    def snapshot(self) -> State:
        """Return a state as of now; the draft goes on."""
        return _copy(self).freeze()


FIELDS = Draft.TABLE
_copy: Callable[[Draft], Draft] = FIELDS.copy
COUNTERS = tuple(one.name for one in FIELDS.in_section(Section.COUNTERS))
"""The names of the counters of the fold; neither hash compares them."""


class State(Draft):
    """The state of one process after some entry. Equal states have equal hashes; ``offset`` says as of where.

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

    def value(self, key: str, default: Any = None) -> Any:
        """Return one value of the context, decoded anew, or ``default``; the other values are not decoded."""
        text = self.values_json.get(key)
        return default if text is None else load(text)

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
        """Return the remembered calls of the agent's code, by key; read-only."""
        written: CallsDraft = _calls_slot.__get__(self)
        return written.window()

    @property
    def attachments(self) -> Mapping[str, Attachment]:  # type: ignore[override]  # read-only on purpose
        """Return the attachments of the process, by the SHA-256 of their bytes in hex; read-only."""
        return MappingProxyType(_attachments_slot.__get__(self))

    @property
    def attached_at(self) -> Mapping[str, tuple[int, ...]]:  # type: ignore[override]  # read-only on purpose
        """Return the offsets of the entries that have the parts of each attachment, by digest; read-only."""
        return MappingProxyType(_attached_at_slot.__get__(self))

    @property
    def forgotten(self) -> Mapping[str, int]:  # type: ignore[override]  # read-only on purpose
        """Return how often a rewind forgot a call, by key; read-only."""
        return MappingProxyType(_forgotten_slot.__get__(self))

    def folded(self, name: str) -> Any:
        """The value of the fold ``name``, as every other reader has it; a fresh copy.

        ``FoldUnavailable`` where it is not registered, failed, or what is kept is not current: never an old value.
        """
        return folded(self, name)

    @property
    def run_identity(self) -> tuple[str, str] | None:
        """Return the agent and the digest of the input with which the process began, or was submitted; None if
        neither."""
        if self.agent is not None:
            return self.agent.name, self.agent.input_digest
        wanted = self.submission
        return None if wanted is None else (wanted.agent, input_digest(wanted.input_json))

    def entry_seq(self, call: Call) -> int:
        """Return the seq of the newest entry about ``call``: in this process, or in a parent if it is inherited."""
        base = self.lineage.seq_base
        return call.seq - base if call.seq > base else call.seq

    @property
    def is_on_hold(self) -> bool:
        """Whether somebody suspended the process and nobody resumed it since: it is not to be run."""
        return self.hold is not None and self.hold.action == "suspend"

    @property
    def ended_in_doubt(self) -> bool:
        """Whether the newest run ended because nobody can tell what became of an effect: only its outcome leads on.

        Of the owner's entries only the release follows that of the exception, unless the code itself recorded it.
        """
        failure = self.failure
        if failure is None or failure.type != _EFFECT_UNKNOWN or self.seq > failure.seq + 1:
            return False
        return not any(call.kind == "write" and self.entry_seq(call) == failure.seq for call in self.calls.values())

    @property
    def unread_mail(self) -> list[MailItem]:
        """Return the external entries that the code of the last owner has not looked at, oldest first."""
        items = [*_mailbox_slot.__get__(self).values()]
        last = next((at for at, item in enumerate(items, 1) if item.id == self.mail_seen), 0)
        return items[last:]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Return the numbers of context values, messages, calls, and items in the mailbox."""
        calls: CallsDraft = _calls_slot.__get__(self)
        return len(_values_slot.__get__(self)), len(self.conversation), len(calls), len(_mailbox_slot.__get__(self))

    @property
    def unsettled_calls(self) -> Mapping[str, Call]:
        """Return the open calls, and the effects that a person has to settle, by key. Do not write on the result."""
        if self.finished:
            return _NO_CALLS
        calls: CallsDraft = _calls_slot.__get__(self)
        return calls.unsettled

    @property
    def open_calls(self) -> Mapping[str, Call]:
        """Return the calls that began and have no outcome, by key: a resumed run goes on there."""
        return {key: call for key, call in self.unsettled_calls.items() if call.status != "stuck"}

    @property
    def in_doubt(self) -> Mapping[str, Call]:
        """Return the open calls whose body may or may not have run, by key: steps, decisions and effects."""
        return {key: call for key, call in self.open_calls.items() if call.kind not in _WAITS}

    @property
    def waits_for(self) -> Mapping[str, Call]:
        """Return the open calls that only wait, by key: timers, gates and children."""
        return {key: call for key, call in self.open_calls.items() if call.kind in _WAITS}

    @property
    def last_call_kind(self) -> str | None:
        """Return the kind of the call ``last_call``; None if the state does not have the call any more."""
        calls: CallsDraft = _calls_slot.__get__(self)
        call = None if self.last_call is None else calls.get(self.last_call)
        return None if call is None else call.kind

    @property
    def first_in_doubt(self) -> str | None:
        """Return the key of the earliest call that is in doubt; None if there is none."""
        in_doubt = self.in_doubt
        return min(in_doubt, key=lambda key: in_doubt[key].seq, default=None)

    @property
    def owed(self) -> tuple[Obligation, ...]:
        """Return the effects to compensate should the process be cancelled or fail; not those revoked outside."""
        return () if self.finished else tuple(one for one in self.obligations if one.status != "revoked")

    @property
    def shared(self) -> Any:
        """The value of a shared value's process, a fresh copy; None where it was never set."""
        return None if self.shared_json is None else load(self.shared_json)

    @property
    def result(self) -> Any:
        """Return the result of a finished process; None before the end."""
        return None if self.result_json is None else load(self.result_json)

    @property
    def hash(self) -> str:
        """BLAKE2b-128 of everything but offsets and counters: equal for every tier and every reader.

        Of a finished process it is the gravestone's, whether the content is still kept beside it or not.
        """
        of = self.without_content() if self.finished and not self.content_dropped else self
        return _hash({**FIELDS.content_of(of), **FIELDS.ownership_of(of)})

    @property
    def content_hash(self) -> str:
        """BLAKE2b-128 of context, conversation, lifecycle, invocations, calls: equal for a fork and its parent."""
        return _hash(FIELDS.content_of(self))

    def without_content(self) -> State:
        """Return what stays of a finished process for ever: its gravestone. ``content_dropped`` says so."""
        draft = self.thaw()
        drop_content(draft)
        return draft.freeze()

    def thaw(self) -> Draft:
        """Return a draft that starts as this state."""
        return _copy(self)

    def content_json(self) -> Json:
        """Return what a rewind or a fork restores, as JSON text."""
        return encoded(FIELDS.content_of(self)).decode()

    def to_bytes(self) -> bytes:
        """Encode the whole state, for a checkpoint; ``from_bytes`` decodes it."""
        whole = {
            "fold_version": FOLD_VERSION,
            "content": FIELDS.content_of(self),
            "ownership": FIELDS.ownership_of(self),
            "counters": FIELDS.counters_of(self),
            **FIELDS.whole_of(self),
        }
        return encoded(whole)

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """Decode the state in ``data``. The state of an older fold is converted.

        ``NewerFormat`` if a newer fold wrote it, ``JournalMismatch`` if it is none, or cannot be converted.
        """
        try:
            return cls.from_json(converted(orjson.loads(data), FOLD_VERSION))
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("bytes that are no state", cause=repr(exc)[:200]) from exc

    @classmethod
    def from_json(cls, whole: Mapping[str, Any]) -> State:
        """Return the state in the JSON values of ``to_bytes``. Raises as ``restore_content`` does."""
        draft = Draft()
        for section in (_CONTENT, _OWNERSHIP, _COUNTERS):
            found = whole[section.value]
            if type(found) is not dict:
                raise TypeError("a section of a state is an object")
            FIELDS.restore(draft, section, found)
        if whole["counters"].keys() != set(COUNTERS):
            raise ValueError("other counters than a state has")
        FIELDS.restore(draft, _WHOLE, whole)
        draft.content_bytes = content_width(draft)
        draft.mailbox_bytes = mailbox_width(draft)
        draft.attached_bytes = sum(attachment.size for attachment in draft.attachments.values())
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


_NO_CALLS: Mapping[str, Call] = MappingProxyType({})
_WAITS = frozenset({"timer", "gate", "child"})
"""Kinds of calls that have no body: while one is open nothing happened that could be in doubt."""
_EFFECT_UNKNOWN = f"{EffectUnknown.__module__}.{EffectUnknown.__qualname__}"
_values_slot: Any = Draft.values_json
_calls_slot: Any = Draft.calls
_attachments_slot: Any = Draft.attachments
_attached_at_slot: Any = Draft.attached_at
_forgotten_slot: Any = Draft.forgotten
_mailbox_slot: Any = Draft.mailbox
_remembered_slot: Any = Draft.remembered


def new_state() -> State:
    """Return the state of a process without entries."""
    return Draft().freeze()


def frame_of(draft: Draft) -> Frame:
    """Return the content that a resume from here starts with."""
    return Frame(draft.values_json.copy(), len(draft.conversation), draft.invocations, draft.invocation)


def drop_content(draft: Draft) -> None:
    """Leave the gravestone of a finished process.

    It has lifecycle, epoch, seq, offset, counters, result, which agent ran, with the digest of its input, and what it
    spent.
    """
    spent = None if draft.budget is None else draft.budget.only_spent()
    clear(draft, Cleared.WITH_CONTENT)
    draft.budget = spent
    draft.agent = None if draft.agent is None else draft.agent.without_input()
    draft.content_dropped = True
    draft.content_bytes = content_width(draft)


def clear(draft: Draft, cleared: Cleared) -> None:
    """Give the fields that are cleared then their defaults back."""
    for one in FIELDS.fields:
        if one.cleared is cleared:
            setattr(draft, one.name, one.new())


def restore_content(draft: Draft, content: Any) -> None:
    """Put the JSON values of ``content_json`` into ``draft``. The caller computes ``content_bytes``.

    ``ValueError``, ``LookupError`` or ``TypeError`` if ``content`` is none.
    """
    if type(content) is not dict:
        raise TypeError("the content of a state is an object")
    FIELDS.restore(draft, _CONTENT, content)


def content_width(draft: Draft) -> int:
    """Return the bytes of all that counts as content: the fields of the table that have a width."""
    return FIELDS.content_width(draft)


def mailbox_width(draft: Draft) -> int:
    """Return the bytes of all external entries that wait in ``draft``."""
    return sum(map(size_of, draft.mailbox.values()))


def _hash(part: Mapping[str, Any]) -> str:
    return blake2b(encoded(part), digest_size=16).hexdigest()
