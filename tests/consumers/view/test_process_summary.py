"""What a list says of a process: its newest call, and since when it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entry_examples import PROCESS_ID, external
from owner_histories import after, folded
from seekpoint.consumers.view.process_summary import Summary, summary_in, summary_of, summary_row
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.process_state import State

STARTED = b.AgentStarted("refund", "1", "d", "null")
STEP = b.StepStarted(key="look:1", position=1, name="look", digest="d")
GATE = b.GateOpened(key="ok:1", position=2, name="ok")
TIMER = b.TimerSet(key="sleep:1", position=3, fires_at_us=9_000_000)


def summarized(state: State) -> Summary:
    """Return the summary, as it comes back from a view."""
    found = summary_of(0, PROCESS_ID.encode(), state)
    assert summary_in(0, PROCESS_ID.encode(), summary_row(PROCESS_ID.encode(), state)) == found
    return found


def waits(state: State) -> tuple[tuple[str, ...], int | None]:
    """Return what the process waits for and since when."""
    found = summarized(state)
    return found.waits_for, found.since_us


def test_a_list_names_the_newest_call() -> None:
    """By kind and key."""
    found = summarized(after(STARTED, STEP))
    assert (found.last_call, found.last_call_kind) == ("look:1", "step")
    none = summarized(after(STARTED))
    assert (none.last_call, none.last_call_kind) == (None, None)


def test_a_process_waits_since_its_oldest_open_wait_began() -> None:
    """Mail, a claim or another entry does not move that time; the end of the oldest wait does."""
    gate = after(STARTED, GATE)
    both = after(TIMER, b.LifecycleChanged("awaiting"), start=gate)
    mailed = folded(external(b.Signal("other"), 9_000_000), start=both)
    assert mailed.updated_us > both.updated_us
    for state in (gate, both, mailed):
        assert waits(state)[1] == gate.updated_us
    answered = after(b.GateResolved(key="ok:1", outcome="approved"), start=both)
    assert waits(answered) == (("timer",), gate.updated_us + 1)
    assert waits(after(b.TimerFired(key="sleep:1", fired_at_us=9_000_000), start=answered))[0] == ("signal",)


def test_a_process_that_awaits_mail_does_so_since_it_said_so() -> None:
    """Nothing else in its state waits."""
    awaiting = after(STARTED, b.LifecycleChanged("awaiting"))
    assert waits(after(b.ContextUpdated("x", "1"), start=awaiting)) == (("signal",), awaiting.updated_us)
    assert waits(after(STARTED)) == ((), None)


def test_a_failed_run_waits_for_its_retry_since_it_failed() -> None:
    """Until the retry begins."""
    failed = after(STARTED, b.LifecycleChanged("failed", retry_at_us=5_000_000))
    assert waits(after(b.Released(), start=failed)) == (("retry",), failed.updated_us)


def test_a_submission_waits_for_its_start_since_the_process_began() -> None:
    """Its first entry submits it."""
    submitted = folded(external(b.Submitted("refund", "1", start_at_us=8_000_000), 5))
    later = folded(external(b.Signal("other"), 9_000_000), start=submitted)
    assert waits(later) == (("start",), submitted.updated_us)


def test_equal_states_name_their_waits_in_the_same_order() -> None:
    """That of the journal, also where a checkpoint has the calls by their turns."""
    inner = b.GateOpened(key="1/ok:1", position=1, name="ok")
    state = after(STARTED, TIMER, inner, replace(GATE, position=4))
    loaded = State.from_bytes(state.to_bytes())
    assert loaded == state
    assert list(loaded.unsettled_calls) != list(state.unsettled_calls)
    assert summarized(loaded) == summarized(state)
    assert summarized(loaded).awaits == ("timer sleep:1", "gate 1/ok:1", "gate ok:1")


def test_a_finished_process_waits_for_nothing() -> None:
    """Whatever its code left open."""
    assert waits(after(b.Finished("1"), start=after(STARTED, GATE))) == ((), None)


def test_a_wait_of_a_journal_without_its_time_has_none() -> None:
    """It was seeded from a state that somebody wrote by hand; a list then says nothing rather than something wrong."""
    draft = after(STARTED, GATE).thaw()
    draft.calls.put("ok:1", replace(draft.calls["ok:1"], detail='{"name":"ok"}'))
    assert waits(draft.freeze()) == (("gate",), None)


@pytest.mark.parametrize("since", ['"x"', "null", "-5", "true", "1" + 40 * "0"])
def test_a_time_that_is_none_is_passed_over(since: str) -> None:
    """The facts of a call in a seed are anybody's text."""
    draft = after(STARTED, GATE).thaw()
    draft.calls.put(
        "ok:1", replace(draft.calls["ok:1"], detail=f'{{"name":"ok","since_us":{since},"deadline_us":{since}}}')
    )
    found = summarized(draft.freeze())
    assert (found.waits_for, found.since_us) == (("gate",), None)
    assert found.until_us in (None, -5)
