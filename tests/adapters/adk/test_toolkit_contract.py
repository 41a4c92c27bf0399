"""The contract of session services, on the toolkit's own two that need no database: what it says are facts of them.

Where they differ, the contract keeps to the toolkit's database service, or asks for more: ``DIFFERENT`` says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from session_service_contract import SessionServiceContract

_NO_MARKER = "only the database service compares revisions of a session; these compare times, or nothing"
DIFFERENT = {
    "test_a_value_that_is_no_json_becomes_text": ("memory", "it keeps the object itself"),
    "test_a_stale_session_is_refused": ("memory sqlite", _NO_MARKER),
    "test_of_events_at_once_one_is_stored": ("memory sqlite", _NO_MARKER),
    "test_a_session_of_before_a_deletion_is_stale": ("memory", _NO_MARKER),
    "test_a_session_without_a_marker_is_compared_by_its_newest_event": ("memory sqlite", _NO_MARKER),
    "test_an_event_that_is_delivered_again_is_stored_once": ("memory sqlite", "a delivery after a crash is ours alone"),
}


@pytest.fixture(params=["memory", "sqlite"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> BaseSessionService:
    """Return a service of the toolkit; a fact that it does not keep has to fail."""
    services, reason = DIFFERENT.get(request.function.__name__, ("", ""))
    if request.param in services.split():
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    return InMemorySessionService() if request.param == "memory" else SqliteSessionService(str(tmp_path / "s.db"))


class TestToolkit(SessionServiceContract):
    """Inherited."""
