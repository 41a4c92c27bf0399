"""Stores of LangGraph's savers: a file, and a schema of a real PostgreSQL server of the session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from langgraph_sources import Store, postgres_store, sqlite_store
from postgres_server import postgres_programs, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a server; the test is skipped where no PostgreSQL is installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="sp-pg-") as name:  # short: it is part of a socket's address
        folder = Path(name)
        folder.chmod(0o755)
        with running_postgres(programs, folder) as server:
            yield server


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A new store of LangGraph's saver for SQLite, and one of its saver for Postgres."""
    if request.param == "sqlite":
        return sqlite_store(tmp_path)
    return postgres_store(request.getfixturevalue("postgres"))
