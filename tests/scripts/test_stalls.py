"""The tests look whether the machine stands still: a stall is seen, and nothing else is one."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from stalls import STALL_S, Stalls, processor_times, taken_away


@pytest.fixture
def stalls() -> Iterator[Stalls]:
    stalls = Stalls()
    time.sleep(0.3)  # it starts
    yield stalls
    stalls.close()


def test_a_machine_that_stands_still_is_seen(stalls: Stalls) -> None:
    """And forgotten, when the next test begins."""
    stalls.beat.send_signal(signal.SIGSTOP)
    time.sleep(2 * STALL_S)
    stalls.beat.send_signal(signal.SIGCONT)
    assert stalls.were_there()
    stalls.forget()
    assert stalls._seen == b""


def test_a_test_that_holds_the_interpreter_is_no_stall(stalls: Stalls) -> None:
    """Its own program looks at the clock: what is slow here is slow by itself."""
    stalls.forget()
    assert sum(range(20_000_000))
    stalls._times = processor_times()
    assert not stalls.were_there()


@pytest.mark.parametrize(
    ("spent", "share"),
    [
        ([60, 0, 20, 500, 9, 0, 0, 20], 0.2),
        ([60, 0, 20, 0, 0, 0, 0, 80], 0.5),
        ([5, 0, 0, 100, 0, 0, 0, 19], 0.0),
        ([0, 0, 0, 300, 0, 0, 0, 0], 0.0),
    ],
)
def test_what_the_host_took_away_is_a_share_of_what_was_asked_for(spent: list[int], share: float) -> None:
    """Idle time is nobody's; a few ticks are nothing."""
    assert taken_away([7] * 8, [7 + each for each in spent]) == pytest.approx(share)


def test_the_times_of_this_machine_go_on() -> None:
    """Eight of them, and none goes back."""
    first = processor_times()
    assert sum(range(2_000_000))
    second = processor_times()
    assert len(first) == len(second) == 8
    assert sum(second) >= sum(first)


def test_it_ends_with_whoever_started_it(stalls: Stalls) -> None:
    """Its input ends."""
    assert stalls.beat.stdin
    stalls.beat.stdin.close()
    assert stalls.beat.wait(60) == 0
