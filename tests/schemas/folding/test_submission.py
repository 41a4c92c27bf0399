"""What the fold makes of a submitted run, and of requests to suspend and to resume a process."""

from __future__ import annotations

import pytest

from entry_examples import an_id, claim, external, own
from folding import FINISHED, GAPPED, OWNED, RELEASED, folded, verdict
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.state.process_state import State, content_width, new_state
from seekpoint.schemas.state.state_parts import Submission

WANTED = b.Submitted("refund", '{"order":1}', 3, 99, "thread")
SUBMITTED = folded(external(WANTED, 7, "ann"))
STARTED = b.AgentStarted("refund", "1", "d", '{"order":1}')


def test_a_submission_waits_beside_the_mailbox() -> None:
    """It creates the process: no owner, no seq, no mail that code could receive."""
    assert SUBMITTED.submission == Submission(an_id(7), "refund", '{"order":1}', 3, 99, "ann", "thread")
    assert SUBMITTED.submission.input == {"order": 1}
    assert (SUBMITTED.epoch, SUBMITTED.owner, SUBMITTED.seq, dict(SUBMITTED.mailbox)) == (0, None, 0, {})
    assert SUBMITTED.content_bytes == content_width(SUBMITTED.thaw()) > 0
    assert State.from_bytes(SUBMITTED.to_bytes()) == SUBMITTED


def test_a_submission_counts_once() -> None:
    """Two workers that handle one record append its entry twice."""
    assert verdict(SUBMITTED, external(WANTED, 7)) is Verdict.DUPLICATE
    begun = folded(claim(8, 0), own(1, STARTED, claim_id=8), start=SUBMITTED)
    assert verdict(begun, external(WANTED, 7)) is Verdict.DUPLICATE


def test_the_first_submission_in_the_log_counts() -> None:
    """A later one with another agent or input changes nothing, also once the run has begun."""
    other = external(b.Submitted("triage", "2"), 9)
    assert verdict(SUBMITTED, other) is Verdict.REFUSED
    assert folded(other, start=SUBMITTED).submission == SUBMITTED.submission
    begun = folded(claim(8, 0), own(1, STARTED, claim_id=8), start=SUBMITTED)
    assert verdict(begun, other) is Verdict.REFUSED
    assert folded(other, start=begun).refused_externals == 1


@pytest.mark.parametrize("state", [OWNED, GAPPED, RELEASED], ids=["owned", "degraded", "released"])
def test_a_process_without_an_agent_takes_a_submission(state: State) -> None:
    """A worker that claimed it and died before the agent began must not lose the run."""
    assert verdict(state, external(WANTED, 7)) is Verdict.DELIVERED


def test_a_finished_process_takes_none() -> None:
    """Its gravestone stays what it is."""
    assert verdict(FINISHED, external(WANTED, 7)) is Verdict.REFUSED
    assert folded(external(WANTED, 7), start=FINISHED).hash == FINISHED.hash


def test_the_begin_of_the_agent_takes_the_submission() -> None:
    """From here on the input is the agent's, and the width is that of the rest."""
    begun = folded(claim(8, 0), own(1, STARTED, claim_id=8), start=SUBMITTED)
    assert begun.submission is None
    assert begun.content_bytes == content_width(begun.thaw())


def test_a_submission_that_no_state_has_room_for_is_refused() -> None:
    """A reader with the same limits refuses it too."""
    small = Limits(state_bytes=100, record_bytes=100_000)
    large = external(b.Submitted("refund", '"' + "x" * 200 + '"'), 7)
    assert advance(new_state().thaw(), 0, large, small) is Verdict.REFUSED


# --- hold -------------------------------------------------------------------------------------------------------------
SUSPENDED = folded(external(b.SuspendRequested("look"), 7, "ann"), start=OWNED)


def test_a_request_to_suspend_puts_the_process_on_hold() -> None:
    """Whoever owns it; content, owner and lifecycle stay as they are."""
    assert SUSPENDED.is_on_hold
    assert SUSPENDED.hold is not None
    assert (SUSPENDED.hold.action, SUSPENDED.hold.reason, SUSPENDED.hold.actor) == ("suspend", "look", "ann")
    assert (SUSPENDED.content_hash, SUSPENDED.owner) == (OWNED.content_hash, OWNED.owner)
    assert not OWNED.is_on_hold


def test_the_newest_request_decides() -> None:
    """A resume ends the hold, a later suspend begins another; the same request twice is one."""
    resumed = folded(external(b.ResumeRequested("fine"), 8), start=SUSPENDED)
    assert not resumed.is_on_hold
    assert resumed.hold is not None
    assert resumed.hold.action == "resume"
    assert verdict(resumed, external(b.SuspendRequested("look"), 7)) is Verdict.DUPLICATE
    assert folded(external(b.SuspendRequested(), 9), start=resumed).is_on_hold


def test_a_run_that_goes_on_carries_the_resume_out() -> None:
    """A budget that suspends the process later is then not overruled by an old request."""
    lifecycle = folded(own(3, b.LifecycleChanged("starting")), own(4, b.LifecycleChanged("running")), start=OWNED)
    asked = folded(own(5, b.LifecycleChanged("suspended")), external(b.ResumeRequested(), 8), start=lifecycle)
    assert asked.hold is not None
    assert folded(own(6, b.LifecycleChanged("running")), start=asked).hold is None


def test_a_run_that_goes_on_does_not_end_a_hold() -> None:
    """An owner that has not seen the request yet writes on."""
    starting = folded(own(3, b.LifecycleChanged("starting")), start=SUSPENDED)
    assert folded(own(4, b.LifecycleChanged("running")), start=starting).is_on_hold


@pytest.mark.parametrize("body", [b.SuspendRequested(), b.ResumeRequested(), b.RedriveRequested()])
def test_a_finished_process_is_neither_suspended_nor_resumed_nor_redriven(body: b.Body) -> None:
    """Nothing reaches it any more."""
    assert verdict(FINISHED, external(body, 7)) is Verdict.REFUSED


def test_the_next_attempt_carries_a_redrive_out() -> None:
    """A failure after it is a new one."""
    running = folded(own(3, b.LifecycleChanged("starting")), own(4, b.LifecycleChanged("running")), start=OWNED)
    failed = folded(
        own(5, b.LifecycleChanged("failed")), external(b.RedriveRequested("again"), 7, "ann"), start=running
    )
    assert failed.redrive is not None
    assert (failed.redrive.reason, failed.redrive.actor) == ("again", "ann")
    assert folded(own(6, b.LifecycleChanged("starting")), start=failed).redrive == failed.redrive
    begun = folded(own(6, b.LifecycleChanged("starting")), own(7, b.LifecycleChanged("running")), start=failed)
    assert begun.redrive is None
