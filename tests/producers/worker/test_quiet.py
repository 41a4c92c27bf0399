"""Nobody appends when nothing arrives and no timer is due: requests in each stage, and code that ends in each way.

The rows are played on a log in memory, in virtual time: a day after the last entry the log has the same length.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiet_rows import REQUESTS, ROWS, STAGES, Row, play
from seekpoint.producers import agent_run
from seekpoint.schemas.errors import ConfirmTimeout

FOUND = (
    Row("inbox", "cancel", "return", 1),  # a run that has not begun
    Row("delayed", "cancel", "return", 1),
    Row("failed", "cancel+cancel", "return", 1),
    Row("gate", "cancel+cancel", "return", 2),
    Row("stuck", "", "return", 1),
    Row("stuck", "redrive+cancel", "return", 1),
    Row("child", "cancel", "return", 1),
    Row("effect", "", "return", 1),
    Row("effect", "stray", "return", 1),
    Row("gate", "stray+submit", "error", 2),  # two groups of workers
    Row("running", "", "cancelled task", 1),
    Row("running", "", "cancelled task in a step", 2),
    Row("running", "", "GeneratorExit", 1),
    Row("running", "", "group in a step", 1),
    Row("gate", "approve", "Retryable", 2),
    Row("undoing", "cancel", "Retryable", 1),
)
SAMPLE = random.Random(32).sample(ROWS, 46)


@pytest.mark.parametrize("row", [*FOUND, *SAMPLE], ids=lambda row: "-".join(map(str, row)))
def test_it_becomes_quiet(row: Row) -> None:
    """Whatever is asked for, and ``status``, ``result`` and ``ps`` agree."""
    play(row)


def test_a_run_that_stops_each_time_before_it_begins_becomes_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails after as many stops as one that had begun."""

    async def stop(*_: object) -> None:
        raise ConfirmTimeout("nothing comes of it")

    monkeypatch.setattr(agent_run, "granted_to", stop)
    play(Row("inbox", "", "Retryable", 1))


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("stage", STAGES)
def test_the_whole_table_becomes_quiet(stage: str) -> None:
    """Each request in this stage, each end of the code, no worker, one, and two."""
    for row in ROWS:
        if row.stage == stage:
            play(row)


@settings(max_examples=8, derandomize=True)
@given(
    stage=st.sampled_from(STAGES),
    requests=st.lists(st.sampled_from([one for one in REQUESTS if one]), min_size=2, max_size=4),
)
def test_after_any_requests_it_becomes_quiet(stage: str, requests: list[str]) -> None:
    """In any order: a run that is asked for changes the state so that it is not asked for again."""
    play(Row(stage, "+".join(requests), "return", 1))
