"""Large values on a real Kafka, with a view in a real Valkey."""

from __future__ import annotations

import pytest

from agent_programs import environment
from large_values_contract import LargeValuesContract, SettledJournal
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.cluster


@pytest.fixture
def place(journal: Settings) -> SettledJournal:
    """A journal of the session's Kafka."""
    return SettledJournal(journal, environment(journal))


class TestKafka(LargeValuesContract):
    """Inherited."""
