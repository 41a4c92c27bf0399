"""Calls are counted from zero in each test."""

from __future__ import annotations

import pytest

from openai_runs import made


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()
