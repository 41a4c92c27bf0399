"""One bar for all phases of a starting local cluster."""

from __future__ import annotations

import sys

import pytest

from seekpoint.compose.setup_phases import DOWNLOADING, PREPARING, STARTING
from seekpoint.console.render.progress import SetupBar
from terminals import Terminal

PHASES = (DOWNLOADING, PREPARING, STARTING)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock: its only item is the time."""
    time_s = [100.0]
    monkeypatch.setattr("seekpoint.console.render.progress.time.monotonic", lambda: time_s[0])
    return time_s


def test_the_bar_never_goes_back_and_ends_with_the_last_phase(now: list[float]) -> None:
    """A download counts by its share, what reports nothing by the time that it usually takes."""
    bar = SetupBar(PHASES)
    seen = []
    for phase, share, passed_s in (
        *((DOWNLOADING, share, 1.0) for share in (0.0, 0.5, 1.0)),
        *((PREPARING, None, passed_s) for passed_s in (0.0, 5.0, 60.0)),
        *((STARTING, None, passed_s) for passed_s in (0.0, 1.0, 60.0)),
    ):
        bar(phase, share)
        now[0] += passed_s
        seen.append(bar.done)
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[1] == pytest.approx(7.5 / 27)
    assert 0.98 < seen[-1] < 1


def test_a_phase_that_is_not_needed_is_no_part_of_the_bar(now: list[float]) -> None:
    """The second start only starts: half of its time is half of the bar."""
    bar = SetupBar(PHASES)
    bar(STARTING)
    now[0] += STARTING.usual_s / 2
    assert (bar.done, bar.text, bar.rate) == (0.5, "starting Kafka and Valkey", "")


def test_a_download_has_a_rate(now: list[float]) -> None:
    """In megabytes a second, once some arrived."""
    bar = SetupBar(PHASES)
    bar(DOWNLOADING, 0.0)
    assert bar.rate == ""
    now[0] += 2.0
    bar(DOWNLOADING, 0.5)
    assert bar.rate == "11.0 MB/s"


def test_a_terminal_shows_one_bar_and_a_pipe_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All phases are drawn in one place, which is empty at the end."""
    with SetupBar(PHASES) as bar:
        bar(DOWNLOADING, 0.5)
        bar(STARTING)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with SetupBar(PHASES) as bar:
        bar(DOWNLOADING, 0.5)
        bar(STARTING)
    written = terminal.getvalue()
    assert "downloading Apache Kafka" in written
    assert "starting Kafka and Valkey" in written
    assert written.count("\n") <= 1
    assert written.endswith("\x1b[2K")
