"""The tests look whether the machine stands still: a stall is seen, and nothing else is one."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from stalls import STALL_S, Stalls


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
    assert not stalls.were_there()


def test_it_ends_with_whoever_started_it(stalls: Stalls) -> None:
    """Its input ends."""
    assert stalls.beat.stdin
    stalls.beat.stdin.close()
    assert stalls.beat.wait(60) == 0
