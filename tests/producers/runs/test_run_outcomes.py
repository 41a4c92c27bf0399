"""Whether a run is over, and what came of it, from the state of its process."""

from __future__ import annotations

import pytest

from entry_examples import claim, external, own
from folding import FINISHED, folded
from seekpoint.producers.durable.failures.recorded_failures import recorded_failure
from seekpoint.producers.runs.run_outcomes import failure_text_of, is_over, refuse_other_run, run_result
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import AgentMismatch, Cancelled, RunFailed, StepFailed
from seekpoint.schemas.state.calls import input_digest
from seekpoint.schemas.state.process_state import State

BEGUN = folded(claim(1), own(1, b.AgentStarted("refund", "1", "d", "1")))
FAILED = b.LifecycleChanged("failed")


def after(*bodies: b.Body) -> State:
    """The state after these entries of the owner."""
    return folded(*(own(1 + number, body) for number, body in enumerate(bodies, 1)), start=BEGUN)


def test_a_run_has_failed_once_its_failure_is_recorded_or_its_owner_is_gone() -> None:
    """And unless it is tried again."""
    assert not is_over(after(FAILED))
    assert is_over(after(FAILED, b.ErrorRecorded("ValueError", "no")))
    assert is_over(after(FAILED, b.Released()))
    assert not is_over(after(b.LifecycleChanged("failed", retry_at_us=5), b.ErrorRecorded("ValueError", "no")))
    redriven = folded(external(b.RedriveRequested(), 9), start=after(FAILED, b.Released()))
    assert not is_over(redriven)


def test_the_outcome_of_a_run_is_its_result_or_an_error() -> None:
    """By its state alone."""
    assert run_result("p", FINISHED) == FINISHED.result
    with pytest.raises(RunFailed, match="ValueError: no"):
        run_result("p", after(FAILED, b.ErrorRecorded("ValueError", "no")))
    cancelled = after(
        b.CancelAccepted(bytes(16), "enough"), b.LifecycleChanged("stopping"), b.LifecycleChanged("stopped")
    )
    assert is_over(cancelled)
    with pytest.raises(Cancelled):
        run_result("p", cancelled)


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        ("ValueError", ValueError),
        ("seekpoint.schemas.errors.AgentMismatch", AgentMismatch),
        ("shop.bank.Broke", StepFailed),
    ],
)
def test_the_failure_of_a_run_names_the_class(shown: str, kind: type[Exception]) -> None:
    """A class that nobody registered is a ``StepFailed``."""
    error = recorded_failure(failure_text_of(after(FAILED, b.ErrorRecorded(shown, "no money"))))
    assert type(error) is kind
    assert "no money" in str(error)


def test_the_failure_of_a_run_is_that_of_its_call_with_all_its_facts() -> None:
    """If class and message are the same."""
    text = '{"type":"builtins:KeyError","message":"\'a\'","data":{"args":["a"]},"retryable":false}'
    failed = (b.StepStarted("pay:1", 1, "pay", "d"), b.StepEnded(key="pay:1", outcome="failed", error=text), FAILED)
    assert recorded_failure(failure_text_of(after(*failed, b.ErrorRecorded("KeyError", "'a'")))).args == ("a",)
    other = recorded_failure(failure_text_of(after(*failed, b.ErrorRecorded("KeyError", "'b'"))))
    assert other.args == ("'b'",)


def test_a_process_of_another_run_is_refused() -> None:
    """Of another agent, or of another input."""
    refuse_other_run("p", BEGUN, "refund", input_digest("1"))
    for agent, text in (("other", "1"), ("refund", "2")):
        with pytest.raises(AgentMismatch):
            refuse_other_run("p", BEGUN, agent, input_digest(text))
