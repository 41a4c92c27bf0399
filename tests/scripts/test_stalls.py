"""The test run notices that the machine stood still, and runs tests that need a server again after it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_runs import PLUGINS, run_pytest
from stalls import SERVER_MARKERS, STALL_S, Stalls, processor_times, taken_away

CONFTEST = """
from stalls import RerunsAfterStalls, Stalls

def pytest_configure(config):
    stalls = Stalls()
    stalls.were_there = lambda: True
    config.add_cleanup(stalls.close)
    config.pluginmanager.register(RerunsAfterStalls(stalls))
"""


@pytest.fixture
def stalls() -> Iterator[Stalls]:
    stalls = Stalls()
    time.sleep(0.3)  # it starts
    yield stalls
    stalls.close()


def test_a_stall_of_the_machine_is_detected(stalls: Stalls) -> None:
    """And forgotten, when the next test begins."""
    stalls.beat.send_signal(signal.SIGSTOP)
    time.sleep(2 * STALL_S)
    stalls.beat.send_signal(signal.SIGCONT)
    assert stalls.were_there()
    stalls.forget()
    assert stalls._seen == b""


def test_a_test_that_holds_the_interpreter_is_not_a_stall(stalls: Stalls) -> None:
    """Its own program looks at the clock: what is slow here is slow by itself. After a real stall, try again."""
    for _ in range(3):
        stalls.forget()
        assert sum(range(20_000_000))
        stalls._times = processor_times()
        if not stalls.were_there():
            return
    raise AssertionError("holding the interpreter looked like a stall three times")


@pytest.mark.parametrize(
    ("spent", "share"),
    [
        ([60, 0, 20, 500, 9, 0, 0, 20], 0.2),
        ([60, 0, 20, 0, 0, 0, 0, 80], 0.5),
        ([5, 0, 0, 100, 0, 0, 0, 19], 0.0),
        ([0, 0, 0, 300, 0, 0, 0, 0], 0.0),
    ],
)
def test_stolen_time_is_a_share_of_the_requested_processor_time(spent: list[int], share: float) -> None:
    """Idle time is nobody's; a few ticks are nothing."""
    assert taken_away([7] * 8, [7 + each for each in spent]) == pytest.approx(share)


def test_the_processor_times_of_this_machine_increase() -> None:
    """Eight of them, and none goes back."""
    first = processor_times()
    assert sum(range(2_000_000))
    second = processor_times()
    assert len(first) == len(second) == 8
    assert sum(second) >= sum(first)


def test_the_stall_program_ends_when_its_input_closes(stalls: Stalls) -> None:
    """Its input ends."""
    assert stalls.beat.stdin
    stalls.beat.stdin.close()
    assert stalls.beat.wait(60) == 0


def test_only_a_test_that_needs_a_server_runs_again_after_a_stall(tmp_path: Path) -> None:
    """A test that starts no Kafka and no Redis fails at once."""
    tests = [f"@pytest.mark.{name}\ndef test_{name}(): assert False\n" for name in SERVER_MARKERS]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_failing.py").write_text("\n".join(["import pytest", "def test_plain(): assert False", *tests]))
    markers = [f"    {name}:" for name in SERVER_MARKERS]
    (tmp_path / "pytest.ini").write_text("\n".join(["[pytest]", "markers =", *markers]))
    printed = run_pytest("-n", "0", "-q", "-rR", str(tmp_path), cwd=tmp_path, PYTHONPATH=PLUGINS)
    assert [line for line in printed.splitlines() if line.startswith("RERUN")] == [
        f"RERUN test_failing.py::test_{name}" for name in SERVER_MARKERS for _ in range(2)
    ], printed
    assert f"{1 + len(SERVER_MARKERS)} failed" in printed


def test_no_test_of_this_run_is_flaky_without_a_server(request: pytest.FixtureRequest) -> None:
    """No test brings a rerun marker of its own."""
    flaky = [item for item in request.session.items if item.get_closest_marker("flaky")]
    alone = [item.nodeid for item in flaky if not any(map(item.get_closest_marker, SERVER_MARKERS))]
    assert alone == []
