"""The calls of an agent's code: what the fold makes of their entries, and the laws it keeps whatever comes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import an_id, claim, external, own
from owner_histories import after, fits, folded
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.folding.fold import advance, fold, try_apply
from seekpoint.schemas.state.calls import call_of, call_row, times_forgotten, turn_of, write_digest, write_position
from seekpoint.schemas.state.process_state import State, content_width
from seekpoint.schemas.state.state_parts import mail_item

OUTCOMES = ("succeeded", "failed", "retry")


def step(key: str = "a:1", attempt: int = 1, **rest: Any) -> b.StepStarted:
    """The start of a step's attempt."""
    return b.StepStarted(key=key, position=1, name="a", digest="d", attempt=attempt, **rest)


def end(key: str = "a:1", outcome: str = "succeeded", attempt: int = 1) -> b.StepEnded:
    """The end of a step's attempt."""
    error = None if outcome == "succeeded" else '{"type":"E"}'
    return b.StepEnded(key=key, attempt=attempt, outcome=outcome, output="[1]", error=error)


def effect(key: str = "pay:1") -> b.EffectIntended:
    """The intent of an effect."""
    return b.EffectIntended(key=key, position=2, name="pay", digest="e", semantics="idempotent", idempotency_key="k")


# --- one attempt, one end ---------------------------------------------------------------------------------------------
def test_a_step_is_remembered_with_its_output() -> None:
    """Exactly; and an empty one too."""
    call = after(step(), end()).calls["a:1"]
    assert (call.kind, call.status, call.output, call.attempt, call.seq) == ("step", "succeeded", "[1]", 1, 2)
    empty = after(step(), b.StepEnded(key="a:1", outcome="succeeded", output="null"))
    assert (empty.calls["a:1"].status, empty.calls["a:1"].output) == ("succeeded", "null")


@pytest.mark.parametrize(
    "body",
    [end(), end("b:1"), end(attempt=2), b.DecisionMade(key="a:1", outcome="succeeded"), b.TimerFired("a:1", 1)],
    ids=["ended", "unknown", "other attempt", "other kind", "a timer's"],
)
def test_an_end_without_its_start_does_not_fit(body: b.Body) -> None:
    """Unknown, ended before, of another attempt or another kind: the writer is refused, a reader is degraded."""
    state = after(step(), end())
    assert not fits(state, body)
    assert folded(own(3, body), start=state).seq == 3


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_attempt_ends_once(outcome: str) -> None:
    """Also one that is tried again: the next end belongs to the next attempt."""
    state = after(step(), end(outcome=outcome))
    for second in OUTCOMES:
        assert not fits(state, end(outcome=second))


def test_an_attempt_in_doubt_is_followed_by_the_next() -> None:
    """The new owner's, or the retry's; the same attempt never begins twice, and an answered call never again."""
    doubt = after(step())
    assert not fits(doubt, step())
    assert not fits(doubt, end(attempt=2))
    assert not fits(after(step(), step(attempt=2)), end(attempt=1))
    assert fits(doubt, step(attempt=2))
    assert not fits(after(step(), end()), step(attempt=2))
    retried = after(step(), end(outcome="retry"), step(attempt=2), end(attempt=2))
    assert retried.calls["a:1"].attempt == 2


@pytest.mark.parametrize("attempt", [0, 2, 3])
def test_attempts_are_counted_from_one(attempt: int) -> None:
    """The first of a step or a decision is 1, and none is left out: who counts otherwise does not know the journal."""
    assert not fits(after(), step(attempt=attempt))
    assert not fits(after(), b.DecisionStarted(key="m:1", position=1, digest="d", attempt=attempt))
    assert fits(after(step()), step(attempt=2))
    assert not fits(after(step()), step(attempt=3))


def test_the_outcome_of_a_call_is_of_the_newest_intent() -> None:
    """What the call itself gave names its attempt; what others saw of the effect does not need to."""
    state = after(effect(), replace(effect(), attempt=2))
    for attempt in (0, 1, 3):
        assert not fits(state, b.EffectSettled(key="pay:1", attempt=attempt, outcome="succeeded"))
    assert fits(state, b.EffectSettled(key="pay:1", attempt=2, outcome="succeeded"))
    for by in ("evidence", "person", "reconciler", "dispatcher"):
        told = after(b.EffectSettled(key="pay:1", attempt=9, outcome="succeeded", settled_by=by), start=state)
        assert (told.calls["pay:1"].status, told.calls["pay:1"].attempt) == ("succeeded", 2)
    assert not fits(state, b.EffectSettled(key="pay:1", attempt=2, outcome="succeeded", settled_by="nobody"))


def test_another_question_under_the_same_key_does_not_fit() -> None:
    """A key and its digest belong together, until the call is answered and after."""
    assert not fits(after(step()), b.StepStarted(key="a:1", position=1, name="a", digest="other", attempt=2))
    assert not fits(after(step()), b.Sampled(key="a:1", position=1, value="1"))


def test_a_timer_never_fires_early() -> None:
    """Whatever an owner's clock says: the entry does not fit."""
    state = after(b.TimerSet(key="t:1", position=1, fires_at_us=100))
    assert not fits(state, b.TimerFired("t:1", 99))
    assert fits(state, b.TimerFired("t:1", 100))


def test_an_answer_leaves_the_mailbox_with_the_entry_that_names_it() -> None:
    """O1: the gate sees the signal by the owner's entry, and no other receives it."""
    gate = after(b.GateOpened(key="g:1", position=1, name="ok"))
    told = folded(external(b.Signal("ok", "true"), 70), start=gate)
    answer = b.GateResolved(key="g:1", outcome="approved", external_id=an_id(70), payload="true", actor="ann")
    state = after(answer, start=told)
    assert not state.mailbox
    assert state.mailbox_bytes == 0
    assert state.calls["g:1"].status == "succeeded"
    assert not fits(state, answer)


def test_mail_leaves_the_mailbox_with_the_call_that_remembers_it() -> None:
    """Whole, as it was sent; one key takes once, and nothing that is not there."""
    told = folded(external(b.Signal("go", '{"n":1}'), 70), start=after())
    took = b.Received(an_id(70), key="receive:1", position=1, digest="d", name="go")
    state = after(took, start=told)
    assert not state.mailbox
    assert state.mailbox_bytes == 0
    call = state.calls["receive:1"]
    assert (call.kind, call.status, call.position, call.digest) == ("receive", "succeeded", 1, "d")
    assert mail_item(json.loads(call.output or "null")) == told.mailbox[an_id(70)]
    assert state.content_bytes > told.content_bytes
    again = folded(external(b.Signal("go", '{"n":2}'), 71), start=state)
    assert not fits(again, replace(took, external_id=an_id(71)))
    for wrong in (replace(took, external_id=an_id(72)), replace(took, key=""), replace(took, position=0)):
        assert not fits(told, wrong)
        assert folded(own(told.seq + 1, wrong), start=told).mailbox == told.mailbox


def test_a_call_that_got_no_mail_in_time_remembers_that() -> None:
    """The entry names none; what waits stays."""
    told = folded(external(b.Signal("other", "1"), 70), start=after())
    state = after(b.Received(key="receive:1", position=1, name="go"), start=told)
    assert (state.calls["receive:1"].output, len(state.mailbox)) == ("null", 1)


def test_mail_that_the_state_has_no_room_for_stays_where_it_is() -> None:
    """Like any call's output it counts, and nothing of it happens."""
    told = folded(external(b.Signal("go", f'"{"x" * 300}"'), 70), start=after())
    took = b.Received(an_id(70), key="receive:1", position=1)
    misfit = try_apply(told.thaw(), told.seq + 1, took, Limits(state_bytes=told.content_bytes + 200))
    assert misfit is not None
    assert misfit[0] == "state_limit"
    assert fits(told, took)


# --- effects ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["of a lower epoch", "of a released epoch"])
def test_what_a_former_owner_says_of_an_effect_in_doubt_is_evidence(how: str) -> None:
    """Stale, but the only one who knows: into the mailbox, once; the effect stays in doubt until its owner says so."""
    start = after(effect())
    taken = folded(claim(2, 1), start=start) if how == "of a lower epoch" else after(b.Released(), start=start)
    late = own(9, b.EffectSettled(key="pay:1", outcome="succeeded", output='"paid"'))
    state = folded(late, late, start=taken)
    (item,) = state.mailbox.values()
    assert (item.kind, item.name, item.payload["output"]) == ("evidence", "pay:1", '"paid"')
    assert state.calls["pay:1"].status == "pending"
    assert (state.stale_entries, state.duplicate_entries) == (2, 1)


def test_what_a_former_owner_says_of_a_settled_effect_is_stale() -> None:
    """Nobody needs it any more."""
    state = folded(claim(2, 1), start=after(effect(), b.EffectSettled(key="pay:1", outcome="succeeded")))
    assert not folded(own(9, b.EffectSettled(key="pay:1", outcome="failed")), start=state).mailbox


def test_a_rewind_never_forgets_an_effect() -> None:
    """I11: what was done outside is answered from its record; a step is done anew, under another key."""
    before = after(b.ContextUpdated("a", "1"))
    done = after(effect(), b.EffectSettled(key="pay:1", outcome="succeeded", output="1"), step(), end(), start=before)
    back = after(b.Rewound(1, before.content_json()), start=done)
    assert (back.calls["pay:1"].status, back.calls["pay:1"].output) == ("succeeded", "1")
    assert "a:1" not in back.calls
    assert times_forgotten(back.forgotten, "a:1") == 1


def test_a_fork_inherits_what_is_in_doubt() -> None:
    """Never run by the child, only looked at; the parent's content hash is the child's."""
    parent = after(effect(), step(), end())
    child = folded(claim(5), own(1, b.Forked("case-17", 3, parent.content_json()), claim_id=5))
    assert child.calls["pay:1"].status == "inherited"
    assert parent.calls["pay:1"].status == "pending"
    assert child.content_hash == parent.content_hash


# --- turns ------------------------------------------------------------------------------------------------------------
def test_the_end_of_a_turn_forgets_its_own_calls_only() -> None:
    """Turn 1's leave, but an effect in doubt; those of turn 10 and of no turn stay."""
    kept = ("a:1", "10/a:1", "1x/a:1", "1/pay:1")
    state = after(*(step(key) for key in ("a:1", "1/a:1", "1/b/a:1", "10/a:1", "1x/a:1")), effect("1/pay:1"))
    ended = after(b.TurnEnded(1), start=state)
    assert set(ended.calls) == set(kept)
    assert ended.turn == 1
    assert not fits(ended, end("1/a:1"))
    for number in (0, 1, 3):
        assert not fits(ended, b.TurnEnded(number))


def test_what_was_forgotten_once_keeps_its_new_name() -> None:
    """A rewind behind turns that are over forgets all of their calls, and the end of a turn is no absolution."""
    start = after()
    first = after(step("1/a:1"), b.Rewound(0, start.content_json()), step("1/a:1"), end("1/a:1"), b.TurnEnded(1))
    assert times_forgotten(first.forgotten, "1/a:1") == 1
    second = after(b.Rewound(0, start.content_json()), start=first)
    assert times_forgotten(second.forgotten, "1/a:1") == 2
    assert times_forgotten(second.forgotten, "7/b:1") == 1
    assert times_forgotten(second.forgotten, "a:1") == 0


# --- shared values ----------------------------------------------------------------------------------------------------
def shared(number: int, expected_version: int, value: str) -> Entry:
    """Somebody sets a shared value."""
    return external(b.SharedSet("rate", expected_version, value), number)._replace(process_id="shared:rate")


def test_the_order_of_the_log_decides_a_shared_value() -> None:
    """Both computed from version 0: the first wins; any version fits -1."""
    state = folded(shared(1, 0, '"first"'), shared(2, 0, '"second"'))
    assert (state.shared, state.shared_version, state.refused_externals) == ("first", 1, 1)
    assert folded(shared(3, -1, '"third"'), start=state).shared == "third"


def test_a_set_that_was_refused_never_wins_later() -> None:
    """Its sender was told so; a second copy of it comes when the version would fit."""
    state = folded(shared(1, 1, '"early"'), shared(2, 0, '"first"'), shared(1, 1, '"early"'))
    assert (state.shared, state.shared_version, state.duplicate_entries) == ("first", 1, 1)


def test_only_a_shared_value_is_set_and_nobody_owns_it() -> None:
    """No stranger can make a process of a value, or take a value for a process."""
    state = folded(external(b.SharedSet("x", -1, "1"), 1), claim(2))
    assert (state.shared_version, state.epoch, state.refused_externals) == (0, 1, 1)
    assert folded(claim(3)._replace(process_id="shared:rate")).lost_claims == 1


# --- rows, keys, digests ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "turn"), [("a:1", 0), ("3/a:1", 3), ("a/3", 0), ("/a", 0), ("x3/a", 0), ("٣/a", 0), ("9" * 19 + "/a", 0)]
)
def test_the_turn_of_a_key_is_the_number_before_the_first_slash(key: str, turn: int) -> None:
    """Nothing else is one."""
    assert turn_of(key) == turn


def test_keys_that_are_kept_for_their_turn_fill_no_memory() -> None:
    """A record may hold a key as large as itself, and the cache outlives the process it was of."""
    kept = turn_of.cache_info().maxsize
    assert kept is not None
    assert kept * DEFAULT_LIMITS.record_bytes <= 64 * 2**20


@pytest.mark.parametrize(("key", "position"), [("#1", 1), ("3/b/#12", 12), ("#x", None), ("a:1", None)])
def test_a_writes_position_is_in_its_key(key: str, position: int | None) -> None:
    """Behind the #."""
    assert write_position(key) == position


def test_a_writes_digest_tells_what_was_written() -> None:
    """Another value or another kind is another digest; the key and how long it took are none of it."""
    digests = {write_digest(b.ContextUpdated("a", text)) for text in ("1", "1.0", '"1"')}
    assert len(digests | {write_digest(b.ContextDeleted("a"))}) == 4
    assert write_digest(b.ContextUpdated("a", "1", call="#1")) == write_digest(b.ContextUpdated("a", "1"))
    assert write_digest(b.InvocationEnded("done", 5)) == write_digest(b.InvocationEnded("done", 6))


def test_prose_is_no_part_of_what_a_write_asks() -> None:
    """Secrets are masked in it: with another password in the settings the same code writes another text."""
    moved = {write_digest(b.LifecycleChanged("suspended", why)) for why in ("as admin said", "as *** said", None)}
    assert len(moved | {write_digest(b.LifecycleChanged("failed", "as admin said"))}) == 2
    assert write_digest(b.ErrorRecorded("ValueError", "admin")) == write_digest(b.ErrorRecorded("ValueError", "***"))
    assert write_digest(b.InvocationEnded("failed", error="a")) == write_digest(b.InvocationEnded("failed", error="b"))


# --- laws -------------------------------------------------------------------------------------------------------------
KEYS = ("a:1", "a:2", "1/a:1", "1/b:1", "2/a:1")
BODIES: st.SearchStrategy[b.Body] = st.one_of(
    st.builds(step, st.sampled_from(KEYS), st.sampled_from([1, 1, 1, 2])),
    st.builds(end, st.sampled_from(KEYS), st.sampled_from(OUTCOMES), st.sampled_from([1, 1, 1, 2])),
    st.builds(effect, st.sampled_from(KEYS)),
    st.builds(
        b.EffectSettled, key=st.sampled_from(KEYS), outcome=st.sampled_from(["succeeded", "failed", "unknown", "stuck"])
    ),
    st.builds(b.Sampled, key=st.sampled_from(KEYS), position=st.just(1), value=st.just("5")),
    st.builds(b.TurnEnded, st.integers(1, 3)),
    st.builds(b.ContextUpdated, st.sampled_from("xy"), st.sampled_from(["1", '"two"']), st.sampled_from([None, "#1"])),
    st.builds(b.PatchMarked, st.sampled_from(["p", "q"])),
    st.builds(b.CallsSetAside, st.sampled_from([f'["{key}"]' for key in KEYS])),
    st.builds(b.ObligationRegistered, key=st.sampled_from(KEYS), name=st.just("undo")),
    st.builds(b.ObligationSettled, key=st.sampled_from(KEYS), outcome=st.sampled_from(["done", "dropped", "stuck"])),
    st.just(b.AgentStarted("agent", "1", "d", "[1]")),
    st.just(b.MessageSaid("user", "hi")),
    st.just(b.BudgetSet('{"usd":"1"}')),
    st.just(b.Diverged("a:1", 1, "input")),
)
HISTORIES = st.lists(BODIES, max_size=25)


@given(HISTORIES)
@settings(max_examples=200, deadline=None)
def test_whatever_is_called_the_widths_and_bytes_tell_it_all(bodies: list[b.Body]) -> None:
    """Widths kept are the widths there are, and a state comes back from its bytes, after every entry."""
    draft = folded(claim(1)).thaw()
    for offset, body in enumerate(bodies, 1):
        advance(draft, offset, own(draft.seq + 1, body))
        assert draft.content_bytes == content_width(draft)
        state = draft.snapshot()
        back = State.from_bytes(state.to_bytes())
        assert back == state
        assert back.hash == state.hash
        assert back.content_bytes == state.content_bytes
        assert all(call_of(call_row(call)) == call for call in state.calls.values())


@given(HISTORIES, HISTORIES)
@settings(deadline=None)
def test_two_futures_of_one_table_do_not_mix(first: list[b.Body], second: list[b.Body]) -> None:
    """The table is shared until one of them writes; neither sees the other's."""
    base = folded(*(own(seq, body) for seq, body in enumerate(first, 1)), start=folded(claim(1)))
    before = base.to_bytes()
    draft, lone = base.thaw(), State.from_bytes(before)
    for number, body in enumerate(second, 1):
        entry = own(base.seq + number, body)
        advance(draft, base.offset + number, entry)
        lone = fold(lone, lone.offset + 1, entry)
        assert draft.snapshot() == lone
    assert base.to_bytes() == before


@given(HISTORIES, HISTORIES)
@settings(deadline=None)
def test_content_restored_is_the_content_there_was(first: list[b.Body], then: list[b.Body]) -> None:
    """A fork has its parent's content hash; a rewind has what it rewinds to, and every effect there is."""
    past = folded(*(own(seq, body) for seq, body in enumerate(first, 1)), start=folded(claim(1)))
    now = folded(*(own(past.seq + number, body) for number, body in enumerate(then, 1)), start=past)
    child = folded(claim(9), own(1, b.Forked("case-17", past.seq, past.content_json()), claim_id=9))
    assert child.content_hash == past.content_hash
    back = folded(own(now.seq + 1, b.Rewound(past.seq, past.content_json())), start=now)
    assert back.context == past.context
    assert len(back.conversation) == len(past.conversation)
    assert (back.turn, back.patches) == (past.turn, past.patches)
    for key, call in now.calls.items():
        if call.kind == "effect":
            assert (back.calls[key].output, back.calls[key].attempt) == (call.output, call.attempt)
    assert {key for key, call in back.calls.items() if call.kind != "effect"} <= set(past.calls)
    assert back.budget == now.budget


@given(HISTORIES, st.integers(0, 25))
@settings(deadline=None)
def test_reading_entries_twice_changes_nothing(bodies: list[b.Body], again: int) -> None:
    """Idempotent per offset: a retry, a charge, a turn's end count once."""
    history = [claim(1), *(own(seq, body) for seq, body in enumerate(bodies, 1))]
    once = folded(*history)
    twice = once
    for offset, entry in list(enumerate(history))[again:]:
        twice = fold(twice, offset, entry)
    assert twice == once
