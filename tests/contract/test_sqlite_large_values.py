"""Large values on the embedded log."""

from __future__ import annotations

from pathlib import Path

import pytest

from large_values_contract import LargeValuesContract, SettledJournal
from seekpoint.schemas.config.settings import local_settings


@pytest.fixture
def place(tmp_path: Path) -> SettledJournal:
    """A file."""
    file = tmp_path / "runs.db"
    return SettledJournal(local_settings(file, {}), {"SEEKPOINT_JOURNAL_URL": f"sqlite:///{file}"})


class TestSqliteLog(LargeValuesContract):
    """Inherited."""
