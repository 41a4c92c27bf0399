"""The state: frozen, handed out as copies, the same after a trip through bytes."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import an_id, claim, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.conversation import Conversation, Message
from seekpoint.schemas.state.process_state import COUNTERS, FIELDS, FOLD_VERSION, Draft, State, new_state
from seekpoint.schemas.state.state_parts import Degraded, InvocationState, Submission

EMPTY = new_state().content_json()
FULL_HISTORY: tuple[Entry, ...] = (
    claim(1),
    own(1, b.Forked("parent", 4, EMPTY)),
    own(2, b.StepStarted("look:1", 1, "look", "d" * 32)),
    own(3, b.Rewound(1, EMPTY)),
    own(4, b.ContextUpdated("price", '{"$decimal":"1.10"}')),
    own(5, b.MessageSaid("user", "Where is my order?")),
    own(6, b.MessageSaid("assistant", None, tool_calls='[{"id":"c1"}]')),
    own(7, b.MessageSaid("tool", None, '{"rows":[1]}', None, "c1", "lookup")),
    own(8, b.LifecycleChanged("starting")),
    own(9, b.InvocationTriggered("webhook", '{"n":1}')),
    own(10, b.InvocationEnded()),
    own(11, b.InvocationTriggered("webhook", '{"n":2}')),
    own(12, b.InvocationStarted()),
    own(13, b.AgentStarted("triage", "1", "f" * 32, '{"order":"4711"}')),
    own(14, b.BudgetSet('{"usd":"5"}', '{"tokens":1000}')),
    own(15, b.ContextUpdated("status", '"checking"', "1/#1")),
    own(16, b.TurnEnded(1)),
    own(17, b.StepStarted("2/look:1", 1, "look", "d" * 32, estimate='{"usd":"0.5"}')),
    own(
        18, b.EffectIntended("2/refund:1", 2, "refund", "e" * 32, "at_most_once", idempotency_key="case-17/2/refund:1")
    ),
    own(19, b.ObligationRegistered("2/refund:1", "take_back", "[1]")),
    own(20, b.PatchMarked("ask-first")),
    own(21, b.CancelAccepted(None, "enough")),
    external(b.Signal("wake", '"now"'), 7, "ann"),
    own(22, b.Custom("paid", "3")),
    own(23, b.ErrorRecorded("ValueError", "no such order", None, "triage.py:7, in triage: raise ValueError")),
    own(24, b.LifecycleChanged("failed", retry_at_us=9)),
    own(25, b.PartAttached("ab" * 32, 9, 0, b"a part", "text/plain")),
    own(26, b.LifecycleChanged("nowhere")),
    own(26),
    own(27, epoch=0),
    own(28, epoch=5),
    own(29),
    claim(9, 4),
    external(b.Signal(), 7),
    external(b.SuspendRequested("look"), 11),
    external(b.RedriveRequested("again"), 12),
)
"""Every slot says something of the process."""


def folded(*entries: Entry, first_offset: int = 0) -> State:
    """The state after ``entries`` from ``first_offset`` on."""
    state = new_state()
    for offset, entry in enumerate(entries, first_offset):
        state = fold(state, offset, entry)
    return state


with only(UserFold("count", 1, "0", lambda value, kind, payload: value + 1)):
    FULL = folded(*FULL_HISTORY)
"""A state with something in every part."""


def test_the_full_state_has_something_in_every_part() -> None:
    """So that the tests below would notice a forgotten one."""
    bare = new_state()
    same = {name for name in FIELDS.names if getattr(FULL, name) == getattr(bare, name)}
    finished = {"finished", "result_json", "content_dropped"}
    waiting = {"awaits", "mail_seen"}
    assert same == {
        *finished, *waiting, "refused_externals", "shared_version", "shared_json", "submission", "deleted_seq",
        "owner_deaths",
    }  # fmt: skip


def test_a_state_comes_back_from_its_bytes() -> None:
    """Every slot, the ones that are recomputed too."""
    back = State.from_bytes(FULL.to_bytes())
    assert [getattr(back, name) for name in FIELDS.names] == [getattr(FULL, name) for name in FIELDS.names]
    assert back == FULL
    assert back.to_bytes() == FULL.to_bytes()
    finished = folded(claim(1), own(1, b.Finished('{"$tuple":[1]}')))
    assert State.from_bytes(finished.to_bytes()).result == (1,)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_state_can_be_copied_and_pickled(take: Callable[[State], State]) -> None:
    """What comes back is equal and still frozen."""
    back = take(FULL)
    assert back == FULL
    with pytest.raises(AttributeError):
        back.seq = 1


def test_a_draft_that_was_thawed_has_every_slot() -> None:
    """thaw and snapshot forget none, and share nothing that is written on."""
    draft = FULL.thaw()
    assert type(draft) is Draft
    assert [getattr(draft, name) for name in FIELDS.names] == [getattr(FULL, name) for name in FIELDS.names]
    snapshot = draft.snapshot()
    draft.values_json["more"] = "1"
    draft.mailbox.clear()
    draft.remembered.clear()
    draft.calls.put("other:1", Call("step", 9, "d", "started", 1, 9))
    draft.forgotten.clear()
    assert snapshot == FULL


# --- frozen -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*FIELDS.names, "context", "hash", "anything"])
def test_a_state_is_frozen(name: str) -> None:
    """No attribute is set or deleted, by anybody who holds it."""
    with pytest.raises(AttributeError):
        setattr(FULL, name, None)
    with pytest.raises(AttributeError):
        delattr(FULL, name)


def test_what_is_handed_out_can_be_changed_without_changing_the_state() -> None:
    """Values are decoded anew each time they are asked for."""
    before = FULL.to_bytes()
    FULL.context["price"] = 0
    FULL.conversation[1].tool_calls.append("more")
    FULL.conversation[2].content["rows"].clear()
    assert FULL.invocation is not None
    FULL.invocation.payload["n"] = 3
    assert FULL.to_bytes() == before
    assert FULL.context is not FULL.context


@pytest.mark.parametrize("name", ["values_json", "mailbox", "remembered", "calls", "forgotten", "folds"])
def test_what_is_not_a_copy_is_read_only(name: str) -> None:
    """A window on the state's own: it can be looked through, not reached through."""
    window: Any = getattr(FULL, name)
    with pytest.raises(TypeError):
        window[b"x"] = None
    with pytest.raises(AttributeError):
        window.clear()


def test_messages_and_parts_are_frozen() -> None:
    """A message, an invocation and a mailbox item are values."""
    for part, name in ((FULL.conversation[0], "role"), (FULL.invocation, "trigger"), (FULL.lineage, "rewinds")):
        with pytest.raises(AttributeError):
            setattr(part, name, "x")


# --- hashes -----------------------------------------------------------------------------------------------------------
def test_the_hash_ignores_offsets_and_counters() -> None:
    """The same entries elsewhere in the log, with junk between them: the same hash, not the same state."""
    elsewhere = folded(*FULL_HISTORY, first_offset=1_000)
    assert elsewhere.hash == FULL.hash
    assert elsewhere != FULL
    noisy = fold(fold(FULL, 100, own(3)), 101, own(4, epoch=0))
    assert noisy.hash == FULL.hash
    assert noisy.duplicate_entries == FULL.duplicate_entries + 1


PLACES = {"offset", "first_offset", "started_us", "updated_us", "lifecycle_us", "attached_at", "awaits"}
"""When and where entries were written: the same history elsewhere has the same hash."""


@pytest.mark.parametrize(
    "name",
    [name for name in FIELDS.names if name not in {"shared_json", "folds", "customs", *PLACES, *COUNTERS}],
)
def test_the_hash_tells_every_other_part(name: str) -> None:
    """A changed slot is a changed hash; only the widths follow from the rest."""
    draft = FULL.thaw()
    bare = folded(claim(1), own(1, b.Finished("1"))).without_content().thaw()
    other = {
        "shared_version": 1,
        "submission": Submission(bytes(16), "triage", "1"),
        "deleted_seq": 1,
        "owner_deaths": 1,
        "mail_seen": bytes(16),
    }.get(name)
    setattr(draft, name, getattr(bare, name) if getattr(bare, name) != getattr(draft, name) else other)
    follows = name in {"content_bytes", "mailbox_bytes", "attached_bytes"}
    assert (draft.freeze().hash == FULL.hash) == follows


def test_the_content_hash_is_of_the_content_only() -> None:
    """Another owner, another seq, mail: the same content. A word more: another."""
    other = folded(claim(5), own(1, b.Rewound(3, FULL.content_json()), claim_id=5), external(b.Signal(), 8))
    assert other.content_hash == FULL.content_hash
    assert other.hash != FULL.hash
    said = fold(folded(claim(5)), 9, own(1, b.MessageSaid("user", "more"), claim_id=5))
    assert said.content_hash != folded(claim(5)).content_hash


def test_equal_values_written_differently_are_other_states() -> None:
    """Dynamic values stay the texts they are: 1 and 1.0 differ, and so do their hashes."""
    one, other = (folded(claim(1), own(1, b.ContextUpdated("a", text))) for text in ("1", "1.0"))
    assert one.hash != other.hash


def test_the_order_of_context_keys_is_no_difference() -> None:
    """A context is a set of named values."""
    first, second = own(1, b.ContextUpdated("a", "1")), own(2, b.ContextUpdated("b", "1"))
    swapped = second._replace(seq=1), first._replace(seq=2)
    assert folded(claim(1), first, second).hash == folded(claim(1), *swapped).hash


# --- bytes that are no state ------------------------------------------------------------------------------------------
def test_a_state_of_a_newer_fold_is_refused_by_its_own_name() -> None:
    """Never a rebuild, never the next tier: the reader stops, whatever else is in it."""
    with pytest.raises(NewerFormat) as caught:
        State.from_bytes(orjson.dumps({"fold_version": FOLD_VERSION + 1}))
    assert (caught.value.found, caught.value.known) == (FOLD_VERSION + 1, FOLD_VERSION)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value inside ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(way for key, item in items for way in paths(item, (*path, key)))]


WHOLE = orjson.loads(FULL.to_bytes())
WAYS = [way for way in paths(WHOLE) if way and way != ("fold_version",)]


@given(st.sampled_from(WAYS), st.sampled_from([None, 7, 1.5, True, "x", [], {}, [[]], {"a": 1}, "drop"]))
@settings(max_examples=400)
def test_a_changed_state_is_a_state_or_a_mismatch(way: tuple[Any, ...], junk: Any) -> None:
    """Nothing else is raised, whatever is wrong; and what is accepted can be used and written again."""
    whole = orjson.loads(FULL.to_bytes())
    inner = whole
    for step in way[:-1]:
        inner = inner[step]
    if junk == "drop":
        del inner[way[-1]]
    else:
        inner[way[-1]] = junk
    try:
        state = State.from_bytes(orjson.dumps(whole))
    except JournalMismatch:
        return
    assert State.from_bytes(state.to_bytes()) == state
    assert state.hash


@given(st.binary(max_size=100))
def test_garbage_is_a_mismatch(junk: bytes) -> None:
    """Bytes that are no state have one error."""
    with pytest.raises(JournalMismatch):
        State.from_bytes(junk)


@pytest.mark.parametrize("cut", [0, 1, 50, -1])
def test_a_truncated_state_is_a_mismatch(cut: int) -> None:
    """No prefix of a state is a state."""
    with pytest.raises(JournalMismatch):
        State.from_bytes(FULL.to_bytes()[:cut])


@pytest.mark.parametrize(
    "junk",
    [b"[]", b"null", b"{}", b'"x"', b'{"fold_version":"1"}', b'{"fold_version":0}', b'{"fold_version":null}'],
)
def test_other_json_is_a_mismatch(junk: bytes) -> None:
    """JSON that is no state, too."""
    with pytest.raises(JournalMismatch):
        State.from_bytes(junk)


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("content", "conversation", 0), "abc"),
        (("content", "conversation", 0), ["user", None, None, None, None]),
        (("content", "invocations"), "5"),
        (("content", "context"), {"a": 1}),
        (("counters",), {"seq": 5}),
        (("ownership", "epoch"), True),
        (("ownership", "owner"), "00"),
        (("ownership", "remembered"), ["00"]),
        (("ownership", "degraded", "earlier"), WHOLE["ownership"]["degraded"]),
    ],
)
def test_a_part_of_the_wrong_form_is_a_mismatch(way: tuple[Any, ...], value: Any) -> None:
    """Reading is strict: almost right was not written by a fold."""
    whole = orjson.loads(FULL.to_bytes())
    inner = whole
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = value
    with pytest.raises(JournalMismatch):
        State.from_bytes(orjson.dumps(whole))


def test_the_full_state_is_degraded_twice() -> None:
    """The gap keeps what was before it, through bytes too."""
    misfit = Degraded("illegal_transition", 26, 26, "failed does not lead to nowhere")
    assert FULL.degraded == Degraded("gap", 27, 29, "", misfit)
    assert FULL.invocation == InvocationState("webhook", '{"n":2}', started=True)


# --- the conversation -------------------------------------------------------------------------------------------------
def said(*texts: str) -> list[b.MessageSaid]:
    """Messages of a user."""
    return [b.MessageSaid("user", text) for text in texts]


def test_a_conversation_is_a_sequence_of_messages() -> None:
    """Index, slice, negative index, iteration, length, equality with a list."""
    conversation = Conversation(said("a", "b", "c"))
    messages = [Message("user", text) for text in "abc"]
    assert conversation == messages == list(conversation)
    assert (conversation[0], conversation[-1], len(conversation)) == (messages[0], messages[2], 3)
    assert conversation[1:] == messages[1:]
    assert conversation[::-1] == messages[::-1]
    assert conversation[-2:9] == messages[-2:]
    assert messages[1] in conversation
    for at in (3, -4):
        with pytest.raises(IndexError):
            conversation[at]


def test_an_older_conversation_does_not_see_what_came_later() -> None:
    """Its length is its own: in iteration, slices, index and equality."""
    old = Conversation(said("a"))
    new = old.append(*said("b"))
    assert (len(old), list(old), old[:], old[-1].text) == (1, [Message("user", "a")], [Message("user", "a")], "a")
    assert [message.text for message in new] == ["a", "b"]
    with pytest.raises(IndexError):
        old[1]


def test_saying_the_same_again_on_an_older_conversation_shares() -> None:
    """A confirmed state that follows an optimistic one costs no copy of a long conversation."""
    old = Conversation(said("a"))
    ahead = old.append(*said("b"))
    behind = old.append(*said("b"))
    assert behind._said is ahead._said
    assert old.append(*said("c"))._said is not ahead._said


def append_at_once(base: Conversation, texts: str) -> dict[str, Conversation]:
    """One thread a text, all appending to ``base`` together."""
    barrier = threading.Barrier(len(texts))
    grown: dict[str, Conversation] = {}

    def run(text: str) -> None:
        barrier.wait()
        grown[text] = base.append(*said(text))

    threads = [threading.Thread(target=run, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return grown


def test_threads_that_append_to_one_conversation_do_not_mix() -> None:
    """Two readers fold on one cached state at once: each gets exactly its own message."""
    for _ in range(100):
        base = Conversation(said("base"))
        grown = append_at_once(base, "abcd")
        assert len(base) == 1
        for text in "abcd":
            assert [message.text for message in grown[text]] == ["base", text]


def test_a_conversation_has_no_hash() -> None:
    """It equals a list, so it hashes as one: not."""
    with pytest.raises(TypeError):
        hash(Conversation())


def test_the_repr_of_a_state_says_where_it_stands() -> None:
    """Short, and without values: it may end up in a log."""
    assert repr(FULL).startswith("State(lifecycle='failed', seq=26, epoch=1, owner=00000000-0000")
    assert "Where is my order" not in repr(FULL)
    assert an_id(1).hex()[-4:] in repr(FULL)


def shared_set(expected_version: int, value: str, number: int) -> Entry:
    """Somebody sets a shared value."""
    entry = external(b.SharedSet("a", expected_version, value), number)
    return entry._replace(process_id="shared:a")


def test_the_hash_tells_a_shared_value() -> None:
    """Log order decides: the second one that was computed from version 0 comes too late."""
    first = folded(shared_set(0, '"a"', 1))
    second = folded(shared_set(0, '"a"', 1), shared_set(0, '"b"', 2))
    assert (second.shared, second.shared_version, second.refused_externals) == ("a", 1, 1)
    third = folded(shared_set(0, '"a"', 1), shared_set(1, '"b"', 2))
    assert (third.shared, third.shared_version) == ("b", 2)
    assert third.hash != first.hash
    assert State.from_bytes(third.to_bytes()) == third


def test_one_value_of_the_context_is_decoded_alone() -> None:
    """A value that is not there is the default."""
    state = fold(
        fold(new_state(), 0, claim(1)),
        1,
        own(1, b.ContextUpdatedMany({"price": '{"$decimal":"1.10"}', "other": "[1]"})),
    )
    assert state.value("price") == Decimal("1.10")
    assert state.value("other") == [1]
    assert state.value("none") is None
    assert state.value("none", 0) == 0
