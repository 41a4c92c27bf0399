"""A view of one partition, and states, that the tests of views write into it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from seekpoint.consumers.view.view_store import Change, Loaded, ViewBrowser
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.state.state_parts import Attachment, Degraded, InvocationState, Lineage, MailItem

__all__ = ["KEY", "OTHER", "TOPIC", "Journal", "full_state", "small_state", "with_messages", "with_values"]

KEY, OTHER = b"case-17", "fläche {1}".encode()
TOPIC = "topic-id-1"
_partitions = itertools.count(100)


def full_state(offset: int = 7) -> State:
    """Return a state without any default, and with texts that are not canonical JSON."""
    draft = Draft()
    draft.offset, draft.first_offset, draft.epoch, draft.seq = offset, 0, 3, 2**53 + 1
    draft.owner, draft.owner_node, draft.owner_boot = bytes(range(16)), "node-ü", ""
    draft.lifecycle, draft.last_kind, draft.invocations = Lifecycle.RUNNING, "custom", 4
    draft.values_json = {"": ' { "b":1, "a" : 1e400 } ', "k\x00\n": '"\\u00fc"', "big": str(2**64)}
    said = [b.MessageSaid("user", "hällo \x00 \U0001f600"), b.MessageSaid("", None, "[ 1 ]", "[]", "", "n")]
    draft.conversation = Conversation([*said, b.MessageSaid("tool", "")])
    draft.invocation = InvocationState("", " null", True)
    item = MailItem(bytes(range(16, 32)), "signal", "go", " 1.0", None)
    draft.mailbox = {item.id: item}
    draft.remembered = {bytes([number]) * 16: None for number in (200, 0, 3)}
    draft.lineage = Lineage("parent", 0, 5, 2)
    draft.degraded = Degraded("gap", 4, 9, "", Degraded("state_limit", 1, 1, "detail"))
    for number, name in enumerate(("stale_entries", "duplicate_entries", "forged_entries", "lost_claims"), 1):
        setattr(draft, name, number)
    draft.abandoned_entries, draft.refused_externals = 2**40, 1
    draft.attachments = {"a" * 64: Attachment(5, "text/plain", 5, 2), "b" * 64: Attachment(9, "", 9, store="s3://b")}
    draft.attached_at = {"a" * 64: (3, 2**40)}
    draft.customs = 6
    draft.folds = {"spent": Folded(3, 5, " [1.0 ] "), "ü {1}": Folded(1, 6, '"ü"', 4, "KeyError")}
    return draft.freeze()


class Journal:
    """The view of a new partition."""

    def __init__(self, store: ViewBrowser, *, applied: int = -1) -> None:
        self.store = store
        self.partition = next(_partitions)
        self.token = store.install(self.partition, TOPIC)
        assert store.ready(self.partition, self.token, applied, -1)
        self.applied = applied

    def write(self, changes: Iterable[Change], applied: int | None = None) -> bool:
        """Write at the view's position."""
        upto = self.applied + 1 if applied is None else applied
        done = self.store.write(self.partition, self.token, self.applied + 1, upto, 5, list(changes))
        if done:
            self.applied = upto
        return done

    def state(self, key: bytes = KEY) -> State | None:
        """Return a process as ``look_up`` and ``load`` return it."""
        state = self.store.look_up(self.partition, key).state
        loaded = self.store.load(self.partition, self.token, [key])
        assert loaded is not None
        assert loaded == Loaded(self.applied, {} if state is None else {key: state})
        return state


def small_state(offset: int, **values: str) -> State:
    """Return a state with these context values."""
    draft = Draft()
    draft.offset, draft.values_json = offset, dict(values)
    return draft.freeze()


def with_messages(state: State, offset: int, *texts: str) -> State:
    """Return ``state`` as of ``offset``, with more messages."""
    draft = state.thaw()
    draft.offset = offset
    for text in texts:
        draft.conversation = draft.conversation.append(b.MessageSaid("user", text))
    return draft.freeze()


def with_values(state: State, values: dict[str, str]) -> State:
    """Return ``state`` with these context values instead of its own."""
    draft = state.thaw()
    draft.values_json = values
    return draft.freeze()
