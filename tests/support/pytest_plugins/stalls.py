"""Whether the machine stood still, or its host let it run half of the time: a test that failed then says nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

__all__ = ["SERVER_MARKERS", "STALL_S", "RerunsAfterStalls", "Stalls", "processor_times", "taken_away"]

SERVER_MARKERS = ("cluster", "own_cluster", "three_brokers", "docker")
"""The markers of tests that need Kafka or Redis: only these tests run again after a stall."""

STALL_S = 0.3
"""A program that sleeps for a twentieth of a second is woken so much too late only where all of them are."""
TAKEN_MAX = 0.25
"""The share of the processor time this machine asked for that its host gave to others."""
_TICKS_MIN = 20
"""Hundredths of a second of them: below that the share says little."""
_BEAT = """
import select, sys, time
last = time.monotonic()
while not select.select([sys.stdin], [], [], 0.05)[0]:
    now = time.monotonic()
    if now - last > 0.05 + float(sys.argv[1]):
        print(now - last, flush=True)
    last = now
"""


class Stalls:
    """A program beside the tests that sleeps and looks at the clock. It ends with whoever started it."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", _BEAT, str(STALL_S)]
        self.beat = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._seen = b""
        self._times = processor_times()
        assert self.beat.stdout
        os.set_blocking(self.beat.stdout.fileno(), False)

    def forget(self) -> None:
        """What was does not count any more."""
        self._read()
        self._seen = b""
        self._times = processor_times()

    def were_there(self) -> bool:
        """Whether the machine has stood still since, or ran for less than it had to."""
        time.sleep(2 * STALL_S)  # it tells of a moment once that is over
        self._read()
        return bool(self._seen) or taken_away(self._times, processor_times()) > TAKEN_MAX

    def close(self) -> None:
        """End it."""
        assert self.beat.stdin
        assert self.beat.stdout
        self.beat.stdin.close()
        self.beat.wait()
        self.beat.stdout.close()

    def _read(self) -> None:
        assert self.beat.stdout
        with contextlib.suppress(BlockingIOError):
            self._seen += self.beat.stdout.read() or b""


class RerunsAfterStalls:
    """A plugin: rerun a test that needs Kafka or Redis if it failed while the machine stood still (shown as R).

    Leases and time-outs of the servers ran out meanwhile. A test that starts no server never runs again.
    """

    def __init__(self, stalls: Stalls) -> None:
        self.stalls = stalls

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the tests that need a server as flaky."""
        again = pytest.mark.flaky(reruns=2, condition=self._excuses)
        for item in items:
            if any(item.get_closest_marker(marker) for marker in SERVER_MARKERS):
                item.add_marker(again)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget earlier stalls: each attempt counts by itself."""
        self.stalls.forget()

    def _excuses(self, error: BaseException | None) -> bool:
        hung = isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout ")
        return error is not None and not hung and self.stalls.were_there()  # None: asked of a test that passed, too


def processor_times() -> list[int]:
    """Hundredths of a second since the start: user, nice, system, idle, waiting, two of interrupts, stolen."""
    stat = Path("/proc/stat")
    return [int(each) for each in stat.read_text().split(None, 9)[1:9]] if stat.exists() else [0] * 8


def taken_away(before: list[int], after: list[int]) -> float:
    """The share of the time the machine had work for that its host gave to others; 0 where it was a moment only."""
    *_, stolen = spent = [new - old for old, new in zip(before, after, strict=True)]
    wanted = sum(spent) - spent[3] - spent[4]
    return stolen / wanted if stolen >= _TICKS_MIN else 0.0
