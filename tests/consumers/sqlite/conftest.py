"""A journal in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from open_files import OpenFile
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.schemas.config.settings import Settings


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[OpenFile]:
    """``open_file()``: the file ``runs.db``, once more each time; closed after the test."""
    made: list[SqliteFile] = []

    def open_it(name: str = "runs.db", *, must_exist: bool = False, **settings: Any) -> SqliteFile:
        made.append(SqliteFile(tmp_path / name, Settings(**settings), must_exist=must_exist))
        return made[-1]

    yield open_it
    for one in made:
        one.close()
