"""Calls are counted from zero in each test."""

from __future__ import annotations

import pytest

from adk_runs import CALLS


@pytest.fixture(autouse=True)
def _forgets() -> None:
    CALLS.clear()
