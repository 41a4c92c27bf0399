"""What a worker does about a process, decided from its state alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, folded
from seekpoint.producers import Agent, agent
from seekpoint.producers.worker.assessment import Next, assess
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.process_state import State, new_state

NOW = 1_000


@agent("refund")
def refund(process: object, input: object) -> None:
    """Do nothing."""


@agent("pinned", pinned=True)
def pinned(process: object, input: object) -> None:
    """Do nothing."""


AGENTS: dict[str, Agent] = {"refund": refund, "pinned": pinned}
SUBMITTED = folded(external(b.Submitted("refund", "1", 3), 7))
BEGUN = folded(claim(1), own(1, b.AgentStarted("refund", "1", "d", "1")))


def after(*bodies: b.Body, start: State = BEGUN) -> State:
    """The state after these entries of the owner, who then gave the process up."""
    written = [own(start.seq + number, body) for number, body in enumerate((*bodies, b.Released()), 1)]
    return folded(*written, start=start)


AWAITING = b.LifecycleChanged("awaiting")
TIMER = b.TimerSet("sleep:1", 1, "sleep", fires_at_us=5_000)
CHILD = b.ChildSpawned("child:1", 3, "refund", "d", "p.1", "refund", "1")
GATE = b.GateOpened("approve:1", 2, "approve", "d")
WAITS = after(GATE, AWAITING)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (GAPPED, "degraded: gap"),
        (new_state(), "no agent was submitted"),
        (folded(external(b.Submitted("other"), 7)), "no code for the agent other"),
        (folded(claim(1), own(1, b.AgentStarted("other", "1", "d"))), "no code for the agent other"),
        (folded(claim(1), own(1, b.AgentStarted("pinned", "1", "d"))), "pinned to the definition d of pinned 1"),
        (folded(external(b.SuspendRequested(), 8), start=SUBMITTED), "suspended"),
        (after(b.LifecycleChanged("suspended")), "suspended by its budget"),
        (after(b.LifecycleChanged("failed")), "failed"),
    ],
)
def test_it_is_left_alone_with_the_reason(state: State, reason: str) -> None:
    """A person, or a worker with other code, has to act."""
    found = assess(state, AGENTS, NOW)
    assert (found.next, found.reason) == (Next.LEAVE, reason)


def test_nothing_is_known_of_what_is_over() -> None:
    """A finished process, and a cancelled one that has stopped."""
    assert assess(FINISHED, AGENTS, NOW).next is Next.FORGET
    accepted = b.CancelAccepted(None, "enough"), b.LifecycleChanged("stopping"), b.LifecycleChanged("stopped")
    assert assess(after(*accepted), AGENTS, NOW).next is Next.FORGET
    assert assess(after(*accepted[:1]), AGENTS, NOW).next is Next.RUN
    assert assess(after(*accepted[:2]), AGENTS, NOW).next is Next.RUN


def test_a_submitted_run_begins_at_its_moment() -> None:
    """At once without one; a request to cancel it does not wait either."""
    assert assess(SUBMITTED, AGENTS, NOW).priority == 3
    assert assess(SUBMITTED, AGENTS, NOW).next is Next.RUN
    later = folded(external(b.Submitted("refund", "1", 3, NOW + 1), 7))
    found = assess(later, AGENTS, NOW)
    assert (found.next, found.due_us) == (Next.WAIT, NOW + 1)
    assert assess(later, AGENTS, NOW + 1).next is Next.RUN
    assert assess(folded(external(b.CancelRequested(), 8), start=later), AGENTS, NOW).next is Next.RUN


def test_a_run_that_was_cut_off_goes_on() -> None:
    """It waits for nothing that its state knows, or has a call in doubt beside what it waits for."""
    assert assess(after(), AGENTS, NOW).next is Next.RUN
    step = b.StepStarted("look:1", 3, "look", "d")
    assert assess(after(GATE, step, AWAITING), AGENTS, NOW).next is Next.RUN
    child = b.ChildSpawned("child:1", 3, "child", "d", "case-18", "helper", "1")
    assert assess(after(child, AWAITING), AGENTS, NOW).next is Next.RUN


def test_a_run_that_waits_is_due_at_the_first_moment() -> None:
    """Of its timers and its gates' deadlines; without one only mail wakes it."""
    found = assess(WAITS, AGENTS, NOW)
    assert (found.next, found.due_us, found.reason) == (Next.WAIT, None, "approve:1")
    deadline = b.GateOpened("approve:1", 2, "approve", "d", deadline_us=3_000)
    both = after(TIMER, deadline, AWAITING)
    assert assess(both, AGENTS, NOW).due_us == 3_000
    assert assess(both, AGENTS, 3_000).next is Next.RUN


def test_an_effect_that_only_a_person_can_settle_is_waited_for() -> None:
    """A verdict is mail, which wakes the process."""
    intent = b.EffectIntended("pay:1", 1, "pay", "d", "at_most_once", idempotency_key="case/pay:1")
    doubt = after(intent, b.EffectSettled("pay:1", 1, "unknown"), AWAITING)
    assert assess(doubt, AGENTS, NOW).next is Next.WAIT
    verdict = external(b.EffectVerdict("pay:1", "failed", idempotency_key="case/pay:1"), 7)
    assert assess(folded(verdict, start=doubt), AGENTS, NOW).next is Next.RUN


def test_mail_wakes_a_process_that_waits() -> None:
    """Mail that its code has looked at and left does not wake it again, whoever looks after it then."""
    state = folded(external(b.Signal("wake"), 7), start=WAITS)
    assert assess(state, AGENTS, NOW).next is Next.RUN
    seen = folded(
        claim(2, 1), own(5, b.LifecycleChanged("running"), epoch=2, claim_id=2),
        own(6, AWAITING, epoch=2, claim_id=2), own(7, b.Released(None, an_id(7)), epoch=2, claim_id=2),
        start=state,
    )  # fmt: skip
    assert assess(seen, AGENTS, NOW).next is Next.WAIT
    assert assess(folded(external(b.Signal("later"), 9), start=seen), AGENTS, NOW).next is Next.RUN
    assert assess(folded(claim(3, 2), start=seen), AGENTS, NOW).next is Next.RUN  # whose owner died


def test_a_process_is_cancelled_once() -> None:
    """A later request stays in the mailbox; a submission that was cancelled before it began is over."""
    cancel, stopped = external(b.CancelRequested(), 8), (b.CancelAccepted(an_id(8)), b.LifecycleChanged("stopped"))
    never_began = folded(claim(1), *(own(n, one) for n, one in enumerate((*stopped, b.Released()), 1)), start=SUBMITTED)
    assert assess(never_began, AGENTS, NOW).next is Next.FORGET
    ended = after(b.CancelAccepted(None), b.LifecycleChanged("stopping"), b.LifecycleChanged("stopped"))
    for state in (never_began, ended):
        assert assess(folded(cancel, start=state), AGENTS, NOW).next is Next.FORGET


def test_a_cancelled_process_that_owes_compensations_is_left_to_a_person() -> None:
    """Another request to cancel changes nothing; a redrive, or the outcome of an effect in doubt, does."""
    intent = b.EffectIntended("undo/pay:1", 0, "pay", "d", "at_most_once", idempotency_key="case/undo/pay:1")
    unknown = b.EffectSettled("undo/pay:1", 1, "unknown")
    stopping = b.CancelAccepted(None), b.LifecycleChanged("stopping")
    stuck = after(*stopping, intent, unknown, b.LifecycleChanged("failed"))
    found = assess(stuck, AGENTS, NOW)
    assert (found.next, found.reason) == (Next.LEAVE, "compensations are still owed")
    for body, then in (
        (b.CancelRequested(), Next.LEAVE), (b.Signal("go"), Next.LEAVE), (b.RedriveRequested(), Next.RUN),
        (b.EffectVerdict("undo/pay:1", "failed"), Next.RUN), (b.EffectVerdict("pay:1", "failed"), Next.LEAVE),
    ):  # fmt: skip
        assert assess(folded(external(body, 9), start=stuck), AGENTS, NOW).next is then, body


def test_a_run_that_ended_in_doubt_waits_for_the_outcome_alone() -> None:
    """No timer, child or step of it asks for a run, which would end in the same way."""
    intent = b.EffectIntended("pay:1", 1, "pay", "d", "at_most_once", idempotency_key="case/pay:1")
    doubt = intent, b.EffectSettled("pay:1", 1, "unknown"), TIMER, CHILD, b.StepStarted("look:1", 4, "look", "d")
    error = b.ErrorRecorded("seekpoint.schemas.errors.EffectUnknown", "nobody can tell")
    state = after(*doubt, AWAITING, error)
    found = assess(state, AGENTS, 9_000, ended={"p.1"})
    assert (found.next, found.due_us, found.children) == (Next.WAIT, None, ())
    for body in (b.EffectVerdict("pay:1", "failed"), b.RedriveRequested(), b.CancelRequested()):
        assert assess(folded(external(body, 9), start=state), AGENTS, NOW).next is Next.RUN
    for other in (b.ErrorRecorded("ValueError", "no"), replace(error, call="#5")):  # of an operator, of the code itself
        assert assess(after(*doubt, AWAITING, other), AGENTS, 9_000).next is Next.RUN


def test_a_failed_beginning_is_over_too() -> None:
    """A submission whose first entry could not be written."""
    state = folded(
        claim(1), own(1, b.LifecycleChanged("starting")), own(2, b.LifecycleChanged("running")),
        own(3, b.LifecycleChanged("failed")), own(4, b.Released()), start=SUBMITTED,
    )  # fmt: skip
    assert (state.submission is not None, assess(state, AGENTS, NOW).next) == (True, Next.LEAVE)


def test_a_resumed_process_goes_on() -> None:
    """One that a person suspended, and one that its budget suspended."""
    asked = external(b.ResumeRequested(), 8)
    held = folded(external(b.SuspendRequested(), 7), start=after())
    assert assess(held, AGENTS, NOW).next is Next.LEAVE
    assert assess(folded(asked, start=held), AGENTS, NOW).next is Next.RUN
    budget = after(b.LifecycleChanged("suspended"))
    assert assess(folded(asked, start=budget), AGENTS, NOW).next is Next.RUN


def test_a_process_that_waits_for_a_child_waits_until_the_child_has_ended() -> None:
    """Whoever runs the child; a timer that is due comes first."""
    found = assess(after(CHILD, AWAITING), AGENTS, NOW)
    assert (found.next, found.children, found.reason) == (Next.WAIT, ("p.1",), "child:1")
    assert assess(after(CHILD, AWAITING), AGENTS, NOW, ended={"p.2"}).next is Next.WAIT
    assert assess(after(CHILD, AWAITING), AGENTS, NOW, ended={"p.1"}).next is Next.RUN
    assert assess(after(TIMER, CHILD, AWAITING), AGENTS, NOW).due_us == 5_000
    assert assess(after(TIMER, CHILD, AWAITING), AGENTS, 5_000).next is Next.RUN


def test_a_child_that_no_worker_has_code_for_needs_its_parent() -> None:
    """It runs beside it."""
    child = b.ChildSpawned("child:1", 3, "other", "d", "p.1", "other", "1")
    assert assess(after(child, AWAITING), AGENTS, NOW).next is Next.RUN


def test_a_process_whose_owner_died_is_run_although_it_waits() -> None:
    """The owner may have died between two waits; one that is known to be idle waits."""
    cut_off = folded(own(2, GATE), own(3, AWAITING), start=BEGUN)
    assert cut_off.owner is not None
    assert assess(cut_off, AGENTS, NOW).next is Next.RUN
    assert assess(cut_off, AGENTS, NOW, is_idle=True).next is Next.WAIT
