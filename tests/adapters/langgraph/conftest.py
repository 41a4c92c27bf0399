"""The journal of a test of the adapter for LangGraph."""

from __future__ import annotations

import pytest

from seekpoint import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    """A journal of the test's own."""
    return MemoryLog()
