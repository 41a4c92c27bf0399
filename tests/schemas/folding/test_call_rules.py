"""The rules for calls: a body that does not fit changes nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entry_examples import an_id, external, own
from owner_histories import after, fits, folded
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.process_state import State, new_state

STEP = b.StepStarted(key="a:1", position=1, name="a", digest="d")
EFFECT = b.EffectIntended(key="pay:1", position=2, name="pay", digest="e", semantics="idempotent")
GATE, CHILD = b.GateOpened(key="g:1", position=1, name="ok"), b.ChildSpawned(key="c:1", position=1, child_id="other")


def spent(state: State) -> dict[str, Decimal]:
    """Return the amounts that the run has used."""
    assert state.budget is not None
    return dict(state.budget.spent)


# --- beginnings -------------------------------------------------------------------------------------------------------
def test_a_call_keeps_its_kind() -> None:
    """A decision cannot be the next attempt of a step, with the same digest and attempt."""
    assert not fits(after(STEP), b.DecisionStarted(key="a:1", position=1, digest="d", attempt=2))


def test_an_intent_is_accepted_once() -> None:
    """A repeated intent needs a higher attempt."""
    state = after(EFFECT, replace(EFFECT, attempt=3))
    for attempt in (1, 2, 3):
        assert not fits(state, replace(EFFECT, attempt=attempt))
    assert fits(state, replace(EFFECT, attempt=7))


@pytest.mark.parametrize("body", [replace(STEP, key=""), replace(STEP, position=-1), b.TimerSet(key="", position=1)])
def test_a_call_has_a_key_and_a_position(body: b.Body) -> None:
    """Without them the call could not be found again."""
    assert not fits(after(), body)


def test_a_step_of_one_entry_fits_where_two_would() -> None:
    """Its start is checked like an entry of its own."""
    whole = b.StepEnded(key="a:1", outcome="succeeded", output="1", position=1, digest="d")
    assert after(whole).calls["a:1"].output == "1"
    assert not fits(after(whole), whole)
    assert not fits(after(), replace(whole, attempt=2))
    assert not fits(after(), replace(whole, outcome="lost"))
    assert not fits(after(), replace(whole, estimate='{"apples":1}'))


FAILED = b.StepEnded(key="f:1", outcome="failed", error='{"type":"KeyError"}', position=1, digest="d")


def test_failed_calls_are_set_aside_all_or_none() -> None:
    """Failed steps, decisions and children are open again and keep the facts for the next attempt."""
    state = after(STEP, FAILED, CHILD, b.ChildEnded("c:1", "failed", error="{}"))
    aside = after(b.CallsSetAside('["f:1","c:1"]'), start=state)
    assert [aside.calls[key].status for key in ("f:1", "c:1")] == ["started", "started"]
    assert aside.calls["c:1"].facts["child_id"] == "other"
    again = after(replace(FAILED, attempt=2, outcome="succeeded", error=None), start=aside)
    assert again.calls["f:1"].status == "succeeded"
    assert fits(aside, b.ChildEnded("c:1", "succeeded", "1"))
    for keys in ("[]", "{}", "no", "[1]", '["f:1","f:1"]', '["f:1","none"]'):
        assert not fits(state, b.CallsSetAside(keys))


def test_a_step_in_doubt_is_set_aside_and_an_effect_never() -> None:
    """Its next attempts count anew; what waits, or may have changed the outside world, stays as it is."""
    timer = b.TimerSet(key="t:1", position=7, fires_at_us=9)
    state = after(STEP, EFFECT, CHILD, timer)
    aside = after(b.CallsSetAside('["a:1"]'), start=state).calls["a:1"]
    assert (aside.status, aside.facts) == ("started", {"attempts_before": 1})
    for key, call in state.calls.items():
        if key != "a:1":
            assert not fits(state, b.CallsSetAside(f'["{key}"]')), call
    assert len(state.calls) == 4
    done = after(STEP, b.StepEnded(key="a:1", outcome="succeeded", output="1"))
    assert not fits(done, b.CallsSetAside('["a:1"]'))


def test_a_sample_is_taken_once_unless_its_failure_was_set_aside() -> None:
    """The failure is remembered as that of a step is."""
    taken, lost = b.Sampled("s:1", 1, "s", value="5"), b.Sampled("s:1", 1, "s", error='{"type":"OSError"}')
    failed = after(lost)
    assert (failed.calls["s:1"].status, failed.calls["s:1"].error) == ("failed", '{"type":"OSError"}')
    for state in (after(taken), failed):
        assert not fits(state, taken)
        assert not fits(state, lost)
    assert not fits(after(replace(STEP, key="s:1")), taken)
    again = after(b.CallsSetAside('["s:1"]'), taken, start=failed).calls["s:1"]
    assert (again.status, again.output, again.error, again.attempt) == ("succeeded", "5", None, 2)


def test_an_effect_is_not_set_aside() -> None:
    """The resolution table decides about effects."""
    assert not fits(after(EFFECT, b.EffectSettled("pay:1", outcome="failed")), b.CallsSetAside('["pay:1"]'))


LIMITS = b.BudgetSet('{"usd":"5"}', '{"tokens":100}')
_DONE = b.StepEnded(key="a:1", outcome="succeeded", output="1")
_BEFORE = [(), (LIMITS,), (STEP,), (LIMITS, replace(STEP, estimate='{"usd":"1"}')), (STEP, _DONE)]
_BEFORE += [(LIMITS, STEP, b.StepEnded("a:1", 1, "retry", retry_at_us=7)), (b.GateOpened(key="a:1", position=1),)]


@given(
    st.sampled_from([after(*bodies) for bodies in _BEFORE]),
    st.builds(
        b.StepEnded,
        key=st.sampled_from(["a:1", "a:1", "1/b:1", ""]),
        attempt=st.sampled_from([1, 1, 2, 2, 3, 0, -1]),
        outcome=st.sampled_from(["succeeded", "succeeded", "failed", "retry", "lost"]),
        output=st.sampled_from(["1", '"é"', "null"]),
        error=st.sampled_from([None, '{"type":"E"}']),
        retry_at_us=st.none() | st.integers(0, 9),
        ended_at_us=st.integers(-1, 9),
        duration_us=st.integers(-1, 9),
        usage=st.sampled_from([None, None, '{"tool_calls":1}', '{"tokens":1}', "[]", '{"tokens":"many"}']),
        position=st.sampled_from([0, 1, 1, 2, -1]),
        digest=st.sampled_from(["d", "d", "d", "e", None, ""]),
        estimate=st.sampled_from([None, '{"usd":"2"}', '{"usd":"2"}', '{"apples":1}', "{}", "[]", '{"usd":"-1"}']),
    ),
)
@example(after(LIMITS), replace(_DONE, position=1, digest="d", estimate='{"usd":"2"}'))
@settings(max_examples=600)
def test_a_step_of_one_entry_has_the_effect_of_two_entries(state: State, whole: b.StepEnded) -> None:
    """For any fields, both fit and give the same state, or neither fits."""
    start, end = whole.implied_start, replace(whole, position=None, digest=None, estimate=None)
    assert start is not None
    both = fits(state, start) and fits(after(start, start=state), end)
    assert fits(state, whole) == both
    if both:
        one, two = after(whole, start=state), after(start, end, start=state)
        assert one.calls[whole.key] == replace(two.calls[whole.key], seq=one.seq)
        assert (one.budget, one.content_bytes) == (two.budget, two.content_bytes)


# --- waits ------------------------------------------------------------------------------------------------------------
def test_gates_and_children_have_known_outcomes_only() -> None:
    """Only an entry of the call's own kind ends it."""
    state = after(GATE, CHILD, STEP)
    for gate in (b.GateResolved("g:1", "lost"), b.GateResolved("c:1", "approved"), b.GateResolved("a:1", "approved")):
        assert not fits(state, gate)
    for child in (b.ChildEnded("c:1", "lost"), b.ChildEnded("g:1", "succeeded"), b.ChildEnded("a:1", "failed")):
        assert not fits(state, child)
    assert not fits(state, b.TimerFired("g:1", 9))


# --- effects and what is owed for them --------------------------------------------------------------------------------
def test_an_effect_has_known_semantics_only() -> None:
    """The resolution of an effect in doubt depends on them."""
    assert not fits(after(), replace(EFFECT, semantics="perhaps"))


@pytest.mark.parametrize("outcome", ["failed", "unknown", "stuck"])
def test_only_an_effect_that_succeeded_has_an_output(outcome: str) -> None:
    """The output in an entry of a failure is ignored."""
    assert after(EFFECT, b.EffectSettled("pay:1", 1, outcome, "1")).calls["pay:1"].output is None
    assert not fits(after(EFFECT), b.EffectSettled("pay:1", 1, "lost"))


def test_the_settling_entry_removes_the_evidence_from_the_mailbox() -> None:
    """The evidence is used once."""
    told = folded(external(b.EffectVerdict("pay:1", "succeeded", "1"), 70), start=after(EFFECT))
    assert told.mailbox
    settled = b.EffectSettled("pay:1", 1, "succeeded", "1", settled_by="person", external_id=an_id(70))
    assert not after(settled, start=told).mailbox


def test_an_effect_has_one_obligation_until_it_is_settled() -> None:
    """Only effects have obligations, and a stuck obligation stays for a person."""
    undo = b.ObligationRegistered("pay:1", "undo")
    assert not fits(after(STEP), b.ObligationRegistered("a:1", "undo"))
    assert not fits(after(EFFECT), b.ObligationSettled("pay:1", "done"))
    state = after(EFFECT, undo)
    assert not fits(state, undo)
    assert not fits(state, b.ObligationSettled("pay:1", "perhaps"))
    stuck = after(b.ObligationSettled("pay:1", "stuck"), start=state)
    assert [one.status for one in stuck.obligations] == ["stuck"]
    assert after(b.ObligationSettled("pay:1", "done"), start=stuck).obligations == ()


# --- the run ----------------------------------------------------------------------------------------------------------
def test_one_agent_runs_as_a_process() -> None:
    """A second start does not fit."""
    assert not fits(after(b.AgentStarted("one", "1", "d")), b.AgentStarted("one", "1", "d"))


def test_the_first_reason_of_a_cancel_stays() -> None:
    """Later requests are removed from the mailbox too."""
    assert after(b.CancelAccepted(None, "first"), b.CancelAccepted(None, "second")).cancelled == "first"


def test_a_patch_is_marked_once() -> None:
    """A repeated marker changes nothing."""
    assert after(b.PatchMarked("p"), b.PatchMarked("p"), b.PatchMarked("q")).patches == ("p", "q")


def test_a_content_write_has_a_key_of_its_own() -> None:
    """A write that does not fit takes neither its key nor room in the state."""
    state = after(b.ContextUpdated("a", "1", "#1"))
    assert not fits(state, b.ContextUpdated("a", "2", "#1"))
    assert not fits(state, b.ContextUpdated("a", "2", "#0"))
    lost = folded(own(state.seq + 1, b.LifecycleChanged("awaiting", call="#2")), start=state)
    assert lost.degraded is not None
    assert (lost.content_bytes, set(lost.calls)) == (state.content_bytes, {"#1"})


# --- budgets ----------------------------------------------------------------------------------------------------------
def test_the_usage_of_a_call_is_charged() -> None:
    """Tokens of all kinds, the cost and the call are counted; a new limit resets nothing."""
    usage = '{"input_tokens":1,"output_tokens":2,"cached_tokens":4,"cache_write_tokens":8}'
    made = b.DecisionMade("m:1", 1, "succeeded", "1", usage=usage, cost_usd="0.5")
    state = after(LIMITS, b.DecisionStarted(key="m:1", position=1, digest="d"), made)
    expected = {"tokens": Decimal(15), "usd": Decimal("0.5"), "model_calls": Decimal(1), "wall_s": Decimal(0)}
    assert spent(state) == expected
    assert spent(after(b.BudgetSet('{"usd":"9"}'), start=state)) == expected
    assert not fits(state, b.BudgetSet('{"usd":"9"}', on_exceed="shrug"))


def test_the_last_attempt_frees_the_reservation() -> None:
    """A refund frees it too; an attempt that will be retried does not."""
    start = replace(STEP, estimate='{"usd":"1"}')
    state = after(LIMITS, start, b.StepEnded("a:1", 1, "retry"))
    assert state.budget is not None
    assert set(state.budget.reserved) == {"a:1"}
    for last in (b.BudgetNoted("refunded", "usd", key="a:1"), replace(STEP, attempt=2, estimate="{}")):
        freed = after(last, start=state).budget
        assert freed is not None
        assert not freed.reserved


def test_an_irreversible_effect_is_counted_unless_it_failed() -> None:
    """A failed effect did not happen."""
    intent = replace(EFFECT, irreversible=True)
    for outcome, count in (("succeeded", 1), ("failed", 0)):
        state = after(LIMITS, intent, b.EffectSettled("pay:1", 1, outcome))
        assert spent(state)["irreversible_effects"] == count


def test_a_limit_is_raised_in_its_scope() -> None:
    """The scope is the run or the day."""
    raised = b.BudgetNoted("raised", "tokens", limit="200")
    for scope, whole, day in (("run", 200, 100), ("day", None, 200)):
        budget = after(LIMITS, replace(raised, scope=scope)).budget
        assert budget is not None
        assert budget.limits.get("tokens") == whole
        assert budget.day_limits["tokens"] == day


# --- what lists show --------------------------------------------------------------------------------------------------
def test_the_newest_call_began_or_ended_last() -> None:
    """A content write is no call of the code's own. A rewind takes the newest call back, a fork has its parent's."""
    begun = after(STEP, EFFECT)
    assert (new_state().last_call, new_state().last_call_kind) == (None, None)
    assert (begun.last_call, begun.last_call_kind) == ("pay:1", "effect")
    ended = after(b.StepEnded(key="a:1", outcome="succeeded"), b.ContextUpdated("x", "1", call="#3"), start=begun)
    assert (ended.last_call, ended.last_call_kind) == ("a:1", "step")
    refused = folded(own(ended.seq + 1, replace(STEP, key="b:1", attempt=7)), start=ended)
    assert refused.last_call == "a:1"
    rewound = after(b.Rewound(2, begun.content_json()), start=ended)
    forked = after(b.Forked("other", 2, ended.content_json()))
    assert (rewound.last_call, forked.last_call, forked.last_call_kind) == ("pay:1", "a:1", "step")


def test_the_newest_call_of_a_turn_that_ended_has_no_kind() -> None:
    """The calls of a turn leave the state with its end. A gravestone has no call at all."""
    ended = after(replace(STEP, key="1/a:1"), b.StepEnded(key="1/a:1", outcome="succeeded"), b.TurnEnded(1))
    assert (ended.last_call, ended.last_call_kind) == ("1/a:1", None)
    assert after(b.Finished("1"), start=ended).without_content().last_call is None


def test_a_long_key_is_cut_where_it_is_kept_a_second_time() -> None:
    """What the code named is as long as an entry may be, and the copy does not count towards the state's size."""
    assert after(replace(STEP, key="k" * 5_000)).last_call == "k" * 200
    content = after(STEP).content_json().replace('"last_call":"a:1"', '"last_call":"' + "k" * 5_000 + '"')
    assert after(b.Forked("other", 2, content)).last_call == "k" * 200


@pytest.mark.parametrize("body", [GATE, CHILD, b.TimerSet(key="t:1", position=1, fires_at_us=9)])
def test_a_wait_has_the_time_of_its_entry(body: b.Body) -> None:
    """Also after the entries that follow it."""
    waiting = after(body)
    (call,) = waiting.waits_for.values()
    assert call.facts["since_us"] == waiting.updated_us > 0
    (later,) = after(b.ContextUpdated("x", "1"), start=waiting).waits_for.values()
    assert later == call


def test_a_lifecycle_has_the_time_of_the_entry_that_set_it() -> None:
    """A change, an agent's start and a finish set it; an entry that does not fit, or a rewind to the same, does not."""
    started = after(b.AgentStarted("refund", "1", "d", "null"))
    assert (started.lifecycle, started.lifecycle_us) == ("running", started.updated_us)
    went_on = after(b.ContextUpdated("x", "1"), b.Rewound(1, started.content_json()), start=started)
    assert (went_on.lifecycle_us, went_on.updated_us) == (started.lifecycle_us, started.updated_us + 2)
    awaiting = after(b.LifecycleChanged("awaiting"), start=went_on)
    assert awaiting.lifecycle_us == awaiting.updated_us
    refused = folded(own(awaiting.seq + 1, b.LifecycleChanged("created")), start=awaiting)
    assert refused.lifecycle_us == awaiting.lifecycle_us
    back = after(b.Rewound(1, started.content_json()), start=awaiting)
    assert (back.lifecycle, back.lifecycle_us) == ("running", back.updated_us)
    finished = after(b.Finished("1"), start=awaiting)
    assert (finished.lifecycle_us, State.from_bytes(finished.to_bytes())) == (finished.updated_us, finished)
