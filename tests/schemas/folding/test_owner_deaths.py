"""How many owners died without progress: claims that take over count, and only an answer or a wait resets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entry_examples import external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.process_state import State, new_state


class History:
    """A process that agents own, one after the other."""

    def __init__(self, *, is_submitted: bool = True) -> None:
        self.state, self.number = new_state(), 0
        if is_submitted:
            self.send(b.Submitted(agent="a", input="null"))

    def put(self, entry: Entry) -> State:
        self.state = fold(self.state, self.state.offset + 1, entry)
        return self.state

    def send(self, body: b.Body) -> State:
        self.number += 1
        return self.put(external(body, self.number))

    def claim(self, boot: str, **more: object) -> int:
        self.send(b.Claim(expected_epoch=self.state.epoch, node_id="n", boot_id=boot, **more))  # type: ignore[arg-type]
        return self.state.owner_deaths

    def write(self, *bodies: b.Body) -> int:
        for body in bodies:
            owner = self.state.owner
            assert owner is not None
            before = self.state.seq
            self.put(own(self.state.seq + 1, body, epoch=self.state.epoch, claim_id=int.from_bytes(owner, "big")))
            assert self.state.seq == before + 1
            assert self.state.degraded is None
        return self.state.owner_deaths


STEP = b.StepStarted(key="a:1", position=1, name="a", digest="d")
END = b.StepEnded(key="a:1", attempt=1, outcome="succeeded", output="1")
BEGIN = b.AgentStarted(agent="a", version="1", definition="d", input="null")


def test_each_take_over_counts_until_a_call_ends() -> None:
    """Starts and further attempts of a body are no progress: the body may be what ends the owners."""
    history = History()
    assert history.claim("one") == 0
    assert history.write(BEGIN, STEP) == 0
    assert history.claim("two") == 1
    assert history.write(replace(STEP, attempt=2)) == 1
    assert history.claim("three") == 2
    assert history.write(replace(STEP, attempt=3), replace(END, attempt=3)) == 0


@pytest.mark.parametrize(
    "body", [b.TimerSet(key="t:1", position=1, fires_at_us=1), b.GateOpened(key="g:1", position=1, name="g")]
)
def test_a_new_wait_is_progress(body: b.Body) -> None:
    """The owner came that far."""
    history = History()
    history.claim("one")
    history.claim("two")
    assert history.write(BEGIN) == 1
    assert history.write(body) == 0


def test_what_is_no_death_does_not_count() -> None:
    """A released process, the owner's own claim, and a process without an agent, which several nodes may write to."""
    history = History()
    history.claim("one")
    assert history.claim("one") == 0
    history.write(b.Released())
    assert history.claim("two") == 0
    assert history.claim("three") == 1
    history.write(b.Released())
    assert history.claim("four") == 1  # a release is no progress either
    other = History(is_submitted=False)
    other.claim("one")
    assert other.claim("two") == 0


def test_a_redrive_and_a_failed_run_begin_to_count_anew() -> None:
    """A person has looked, or the run had an outcome."""
    history = History()
    history.claim("one")
    assert history.claim("two") == 1
    history.send(b.RedriveRequested())
    assert history.state.owner_deaths == 0
    assert history.claim("three") == 1
    assert history.write(BEGIN, b.LifecycleChanged("failed")) == 0
