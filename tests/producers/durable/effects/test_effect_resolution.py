"""What may be done with an effect: every row of the table, and what no history may lead to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers.durable.effects.effect_resolution import (
    Answer,
    Effect,
    EffectStatus,
    End,
    NextStep,
    Situation,
    decide,
)

IDEMPOTENT, ONCE, OBSERVE = Effect.IDEMPOTENT, Effect.AT_MOST_ONCE, Effect.OBSERVE_ONLY
FOUND = [Answer.SUCCEEDED, Answer.FAILED, Answer.DUPLICATE, Answer.STUCK]


def next_step(status: EffectStatus = EffectStatus.PENDING, semantics: Effect = IDEMPOTENT, **facts: Any) -> NextStep:
    return decide(Situation(status=status, semantics=semantics, **facts))


def ended(end: End, semantics: Effect = IDEMPOTENT, **facts: Any) -> NextStep:
    """Return the next step after this owner's own call ended so."""
    return next_step(semantics=semantics, ours=True, called=True, end=end, **facts)


@pytest.mark.parametrize("semantics", Effect)
@pytest.mark.parametrize("status", [EffectStatus.SUCCEEDED, EffectStatus.FAILED])
def test_what_is_settled_is_handed_out_whatever_else_is_known(status: EffectStatus, semantics: Effect) -> None:
    """Row 1: a later outcome or answer, or the end of a call, changes nothing."""
    assert next_step(status, semantics) is NextStep.RECORDED
    assert (
        next_step(
            status, semantics, has_external_outcome=True, can_reconcile=True, end=End.RETURNED, ours=True, called=True
        )
        is NextStep.RECORDED
    )


@pytest.mark.parametrize("semantics", Effect)
def test_a_new_effect_begins_with_its_intent(semantics: Effect) -> None:
    """Row 2: no external outcome settles an effect without an intent."""
    assert next_step(EffectStatus.NEW, semantics) is NextStep.INTEND
    assert next_step(EffectStatus.NEW, semantics, has_external_outcome=True, can_reconcile=True) is NextStep.INTEND


@pytest.mark.parametrize("semantics", Effect)
@pytest.mark.parametrize("end", [End.RETURNED, End.REFUSED])
def test_a_certain_outcome_of_our_own_call_settles_before_any_other(end: End, semantics: Effect) -> None:
    """Row 3: a result, or a refusal that says nothing was done."""
    assert ended(end, semantics) is NextStep.TAKE_CALL
    assert ended(end, semantics, has_external_outcome=True, can_reconcile=True, retries_left=True) is NextStep.TAKE_CALL


@pytest.mark.parametrize("semantics", Effect)
@pytest.mark.parametrize(
    "status", [EffectStatus.PENDING, EffectStatus.UNKNOWN, EffectStatus.STUCK, EffectStatus.INHERITED]
)
def test_an_outcome_in_the_mailbox_settles_whatever_is_undecided(status: EffectStatus, semantics: Effect) -> None:
    """Row 4: a former owner's evidence, a dispatcher's or a person's verdict, before anybody is asked or called."""
    assert next_step(status, semantics, has_external_outcome=True) is NextStep.TAKE_EXTERNAL
    assert (
        next_step(status, semantics, has_external_outcome=True, can_reconcile=True, ours=True, attempts_max=9)
        is NextStep.TAKE_EXTERNAL
    )
    assert ended(End.TIMED_OUT, semantics, has_external_outcome=True, retries_left=True) is NextStep.TAKE_EXTERNAL


@pytest.mark.parametrize("semantics", Effect)
def test_what_is_stuck_waits_for_a_person(semantics: Effect) -> None:
    """Row 5: it is not asked or called again by itself."""
    assert (
        next_step(EffectStatus.STUCK, semantics, can_reconcile=True, attempts_max=9, enforces_key=True)
        is NextStep.STUCK
    )


@pytest.mark.parametrize("semantics", [IDEMPOTENT, ONCE])
@pytest.mark.parametrize("enforces_key", [False, True])
def test_an_inherited_effect_is_only_looked_at(semantics: Effect, enforces_key: bool) -> None:
    """Rows 7 to 9: no answer and no guarantee of the connector makes a fork or a rewind call."""

    def inherited(**facts: Any) -> NextStep:
        return next_step(EffectStatus.INHERITED, semantics, enforces_key=enforces_key, attempts_max=9, **facts)

    assert inherited(can_reconcile=True) is NextStep.RECONCILE
    assert inherited() is NextStep.UNKNOWN
    assert inherited(can_reconcile=True, answer=Answer.ABSENT) is NextStep.UNKNOWN
    for answer in FOUND:
        assert inherited(can_reconcile=True, answer=answer) is NextStep.TAKE_ANSWER


def test_an_inherited_look_is_looked_again() -> None:
    """Row 6: what only observes changes nothing, whoever inherited it; what it raises then is its outcome."""
    assert next_step(EffectStatus.INHERITED, OBSERVE, can_reconcile=True) is NextStep.CALL
    assert next_step(EffectStatus.INHERITED, OBSERVE, called=True, end=End.RAISED) is NextStep.TAKE_CALL
    assert next_step(EffectStatus.INHERITED, OBSERVE, called=True, end=End.TIMED_OUT) is NextStep.UNKNOWN


@pytest.mark.parametrize("semantics", Effect)
def test_our_confirmed_intent_is_called_by_us_or_by_the_dispatcher(semantics: Effect) -> None:
    """Rows 10 and 11."""
    assert next_step(semantics=semantics, ours=True, attempts=1) is NextStep.CALL
    assert next_step(semantics=semantics, ours=True, attempts=1, dispatched=True) is NextStep.WAIT


@pytest.mark.parametrize("semantics", Effect)
def test_an_intent_that_a_dispatcher_calls_outlives_its_owner(semantics: Effect) -> None:
    """Row 12: the next owner waits on; its own reconciler and retries are the dispatcher's business."""
    assert next_step(semantics=semantics, dispatched=True, can_reconcile=True, attempts_max=9) is NextStep.WAIT


@pytest.mark.parametrize("end", [End.RAISED, End.TIMED_OUT])
@pytest.mark.parametrize(("semantics", "enforces"), [(IDEMPOTENT, False), (OBSERVE, False), (ONCE, True)])
def test_a_call_that_failed_is_made_again_while_retries_are_left(end: End, semantics: Effect, enforces: bool) -> None:
    """Row 13: before anybody is asked."""
    assert ended(end, semantics, enforces_key=enforces, retries_left=True, can_reconcile=True) is NextStep.INTEND


@pytest.mark.parametrize("end", [End.RAISED, End.TIMED_OUT])
@pytest.mark.parametrize("semantics", Effect)
def test_after_the_last_try_the_reconciler_is_asked(end: End, semantics: Effect) -> None:
    """Rows 14 and 15."""
    assert ended(end, semantics, can_reconcile=True) is NextStep.RECONCILE
    for answer in FOUND:
        assert ended(end, semantics, can_reconcile=True, answer=answer) is NextStep.TAKE_ANSWER


def test_retries_never_repeat_an_at_most_once_call() -> None:
    """Row 13's other side: a generous policy is no permission."""
    for end in (End.RAISED, End.TIMED_OUT):
        assert ended(end, ONCE, retries_left=True, attempts_max=9) is NextStep.UNKNOWN


def test_what_the_last_call_raised_is_the_outcome_where_a_call_is_harmless_or_proved_absent() -> None:
    """Row 16: idempotent, or at-most-once and not there though our call has ended."""
    assert ended(End.RAISED, IDEMPOTENT) is NextStep.TAKE_CALL
    assert ended(End.RAISED, IDEMPOTENT, can_reconcile=True, answer=Answer.ABSENT) is NextStep.TAKE_CALL
    assert ended(End.RAISED, ONCE, can_reconcile=True, answer=Answer.ABSENT) is NextStep.TAKE_CALL


def test_a_call_that_timed_out_stays_in_doubt() -> None:
    """Rows 17 and 18: it may land yet, so not even ABSENT says that it will not."""
    for answer in (None, Answer.ABSENT):
        asked = answer is not None
        assert ended(End.TIMED_OUT, IDEMPOTENT, can_reconcile=asked, answer=answer) is NextStep.STUCK
        assert ended(End.TIMED_OUT, ONCE, can_reconcile=asked, answer=answer) is NextStep.UNKNOWN
    assert ended(End.RAISED, ONCE) is NextStep.UNKNOWN


def test_a_compensation_never_fails_by_its_own_call() -> None:
    """Rows 3, 16 and 17: it is owed, so it is done or stuck."""
    for end in (End.REFUSED, End.RAISED, End.TIMED_OUT):
        assert ended(end, IDEMPOTENT, is_compensation=True) is NextStep.STUCK
        assert ended(end, IDEMPOTENT, is_compensation=True, can_reconcile=True) is NextStep.RECONCILE
        assert ended(end, IDEMPOTENT, is_compensation=True, can_reconcile=True, answer=Answer.ABSENT) is NextStep.STUCK
    assert ended(End.RAISED, IDEMPOTENT, is_compensation=True, retries_left=True) is NextStep.INTEND
    assert ended(End.RETURNED, IDEMPOTENT, is_compensation=True) is NextStep.TAKE_CALL


IN_DOUBT: list[dict[str, Any]] = [
    {"status": EffectStatus.PENDING},
    {"status": EffectStatus.UNKNOWN},
    {"status": EffectStatus.PENDING, "ours": True, "called": True},
    {"status": EffectStatus.UNKNOWN, "dispatched": True},
]
"""Another owner's intent; one nobody could tell of; our own call, cancelled; what a dispatcher could not tell."""


@pytest.mark.parametrize("doubt", IN_DOUBT, ids=str)
def test_in_doubt_an_at_most_once_effect_is_asked_for_and_never_called(doubt: dict[str, Any]) -> None:
    """Rows 19 to 21: ABSENT does not allow a call, since the owner may be asleep just before it."""
    facts = doubt | {"semantics": ONCE, "attempts": 1, "attempts_max": 9, "retries_left": True}
    assert next_step(**facts, can_reconcile=True) is NextStep.RECONCILE
    assert next_step(**facts) is NextStep.UNKNOWN
    assert next_step(**facts, can_reconcile=True, answer=Answer.ABSENT) is NextStep.UNKNOWN
    assert next_step(**facts, can_reconcile=False, answer=None) is NextStep.UNKNOWN
    for answer in FOUND:
        assert next_step(**facts, can_reconcile=True, answer=answer) is NextStep.TAKE_ANSWER


@pytest.mark.parametrize("doubt", IN_DOUBT, ids=str)
def test_in_doubt_a_connector_that_enforces_the_key_is_called_again_once_it_is_absent(doubt: dict[str, Any]) -> None:
    """Rows 19 and 22: the connector takes the key once, whoever is asleep."""
    facts = doubt | {"semantics": ONCE, "enforces_key": True, "attempts": 1, "attempts_max": 2}
    assert next_step(**facts, can_reconcile=True) is NextStep.RECONCILE
    assert next_step(**facts, can_reconcile=True, answer=Answer.ABSENT) is NextStep.INTEND
    assert next_step(**facts) is NextStep.INTEND


@pytest.mark.parametrize("doubt", IN_DOUBT, ids=str)
@pytest.mark.parametrize("semantics", [IDEMPOTENT, OBSERVE])
def test_in_doubt_what_may_be_repeated_is_repeated_a_bounded_number_of_times(
    doubt: dict[str, Any], semantics: Effect
) -> None:
    """Rows 22 to 24: with the same key, then the reconciler, then it is stuck."""
    facts = doubt | {"semantics": semantics, "attempts_max": 3}
    assert next_step(**facts, attempts=2, can_reconcile=True) is NextStep.INTEND
    assert next_step(**facts, attempts=3, can_reconcile=True) is NextStep.RECONCILE
    assert next_step(**facts, attempts=3) is NextStep.STUCK
    assert next_step(**facts, attempts=3, can_reconcile=True, answer=Answer.ABSENT) is NextStep.STUCK
    for answer in FOUND:
        assert next_step(**facts, attempts=3, can_reconcile=True, answer=answer) is NextStep.TAKE_ANSWER


# --- any history ------------------------------------------------------------------------------------------------------
CRASHES = ["", "after intent", "asleep before the call", "in the call", "cancelled", "before the outcome"]
ENDS = list(End)


@dataclass
class Life:
    """One owner: what it does until it has an outcome, gives up, or dies."""

    crash: str
    end: End
    answer: Answer | None
    has_external_outcome: bool
    retries: int


@dataclass
class World:
    """The record of one effect, and how often it was called."""

    semantics: Effect
    enforces_key: bool
    inherited: bool = False
    status: EffectStatus = EffectStatus.NEW
    attempts: int = 0
    calls: int = 0
    asleep: int = 0
    takeovers: int = -1

    def live(self, life: Life) -> None:
        """An owner comes (another one may be asleep), decides and acts; then it is gone."""
        self.takeovers += 1
        at = Situation(
            status=self.status, semantics=self.semantics, enforces_key=self.enforces_key, attempts=self.attempts,
            attempts_max=4, can_reconcile=life.answer is not None,
            has_external_outcome=life.has_external_outcome and self.status is not EffectStatus.NEW,
        )  # fmt: skip
        for _ in range(50):
            following = self.step(decide(at), at, life)
            if following is None:
                return
            at = following
        raise AssertionError("an owner that never comes to an end")

    def step(self, move: NextStep, at: Situation, life: Life) -> Situation | None:
        if move is NextStep.INTEND:
            self.attempts += 1
            self.status = EffectStatus.PENDING
            if life.crash == "after intent":
                return None
            return replace(
                at, status=EffectStatus.PENDING, ours=True, called=False, end=None, answer=None, attempts=self.attempts
            )
        if move is NextStep.CALL:
            return self.call(at, life)
        if move is NextStep.RECONCILE:
            return replace(at, answer=life.answer)
        if move is NextStep.TAKE_CALL:
            if life.crash != "before the outcome":
                self.status = EffectStatus.SUCCEEDED if at.end is End.RETURNED else EffectStatus.FAILED
        elif move is NextStep.TAKE_EXTERNAL:
            self.status = EffectStatus.SUCCEEDED
        elif move is NextStep.TAKE_ANSWER:
            found = {Answer.SUCCEEDED: EffectStatus.SUCCEEDED, Answer.STUCK: EffectStatus.STUCK}
            self.status = found.get(at.answer, EffectStatus.FAILED)  # type: ignore[arg-type]  # it is there in this row
        elif move is NextStep.STUCK:
            self.status = EffectStatus.STUCK
        elif move is NextStep.UNKNOWN and self.status is not EffectStatus.INHERITED:
            self.status = EffectStatus.UNKNOWN
        return None

    def call(self, at: Situation, life: Life) -> Situation | None:
        if life.crash == "asleep before the call":
            self.asleep += 1
            return None
        self.calls += 1
        if life.crash == "in the call":
            return None
        if life.crash == "cancelled":
            life.crash = ""  # once: who looks again after that is not cancelled for ever
            return replace(at, called=True)
        end, life.retries = life.end, life.retries - 1
        return replace(at, called=True, end=end, retries_left=life.retries > 0)

    def wake(self) -> None:
        """Every owner that slept just before its call makes it."""
        self.calls, self.asleep = self.calls + self.asleep, 0


lives = st.builds(
    Life,
    crash=st.sampled_from(CRASHES),
    end=st.sampled_from(ENDS),
    answer=st.none() | st.sampled_from(Answer),
    has_external_outcome=st.booleans(),
    retries=st.integers(0, 3),
)


@given(st.lists(st.tuples(lives, st.booleans()), max_size=12))
def test_an_at_most_once_effect_is_never_called_twice_over_any_history(history: list[tuple[Life, bool]]) -> None:
    """Whatever crashes, takeovers, answers and outcomes there are, there is at most one call."""
    world = World(ONCE, enforces_key=False)
    for life, someone_wakes in history:
        world.live(replace(life))
        if someone_wakes:
            world.wake()
    world.wake()
    assert world.calls <= 1


@given(st.lists(lives, max_size=12), st.sampled_from([IDEMPOTENT, OBSERVE]))
def test_a_call_in_doubt_is_repeated_once_a_takeover_and_bounded_in_all(history: list[Life], semantics: Effect) -> None:
    """I8: without retries of its own, and if no caller cancels it, once an owner; at most attempts_max times in all."""
    world = World(semantics, enforces_key=False)
    for life in history:
        world.live(replace(life, retries=0))
    world.wake()
    cancelled = sum(life.crash == "cancelled" for life in history)
    assert world.calls <= min(1 + world.takeovers + cancelled * 4, 4)


@given(st.lists(lives, max_size=8), st.sampled_from([IDEMPOTENT, ONCE]), st.booleans())
def test_an_inherited_effect_is_never_called_over_any_history(
    history: list[Life], semantics: Effect, enforces_key: bool
) -> None:
    """I11: whatever becomes of it, no fork and no rewind fires it again."""
    world = World(semantics, enforces_key, status=EffectStatus.INHERITED)
    for life in history:
        world.live(replace(life))
    assert (world.calls, world.attempts) == (0, 0)


@given(lives, st.sampled_from(Effect), st.booleans(), st.sampled_from(EffectStatus), st.integers(0, 5))
def test_every_situation_comes_to_an_end(
    life: Life, semantics: Effect, enforces_key: bool, status: EffectStatus, attempts: int
) -> None:
    """No owner asks, calls or intends for ever."""
    world = World(semantics, enforces_key, status=status, attempts=attempts)
    world.live(life)
