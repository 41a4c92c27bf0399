"""A benchmark's table says the same to people and to programs."""

from __future__ import annotations

import json
import math

import pytest

from _table import Table, p50, p99, progress, times_raw


def a_table() -> Table:
    """Two rows of different columns, one bar held, one not."""
    table = Table("append")
    table.row(what="serial", p50_ms=0.61234, fsync=True)
    table.row(what="500 at once", entries_per_s=31_415.9)
    table.at_most("serial p50, times raw", bar=1.5, value=1.25)
    table.at_least("entries/s", bar=40_000, value=31_415.9)
    return table


def test_json_is_exactly_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the name, the rows as given, and each bar with what, bar, value and held."""
    a_table().finish(json=True)
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "name": "append",
        "rows": [
            {"what": "serial", "p50_ms": 0.61234, "fsync": True},
            {"what": "500 at once", "entries_per_s": 31415.9},
        ],
        "bars": [
            {"what": "serial p50, times raw, at most", "bar": 1.5, "value": 1.25, "held": True},
            {"what": "entries/s, at least", "bar": 40_000, "value": 31415.9, "held": False},
        ],
    }


def test_the_text_is_aligned_and_marks_a_missed_limit() -> None:
    """Texts to the left, numbers to the right, a missing cell empty."""
    assert a_table().to_text().splitlines() == [
        "append",
        "",
        "what         p50_ms  fsync  entries_per_s",
        "serial       0.6123  True",
        "500 at once                        31,416",
        "",
        "bar                             must be      is",
        "serial p50, times raw, at most      1.5    1.25  held",
        "entries/s, at least              40,000  31,416  NOT HELD",
    ]


def test_a_missed_limit_gives_exit_code_1() -> None:
    """So that a script notices."""
    assert a_table().finish() == 1
    assert Table("empty").finish() == 0


def test_a_baseline_without_a_measurement_misses_the_limit() -> None:
    """A missing raw figure is not a success, and JSON stays JSON."""
    table = Table("append")
    table.at_most("times raw", bar=1.5, value=times_raw(0.6, 0.0))
    assert json.loads(table.to_json())["bars"][0] == {
        "what": "times raw, at most",
        "bar": 1.5,
        "value": None,
        "held": False,
    }
    assert math.isnan(table.bars[0].value)


def test_percentiles_are_measured_values() -> None:
    """The nearest rank, whatever the order of the values; of nothing there is none."""
    assert p50([3.0, 1.0, 2.0]) == 2.0
    assert p99([float(value) for value in range(1, 201)]) == 198.0
    assert p99([7.0]) == 7.0
    with pytest.raises(ValueError, match="no values"):
        p50([])


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A log file gets no control characters."""
    progress("half way")
    assert capsys.readouterr() == ("", "")
