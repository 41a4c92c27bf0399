"""The type of the fixture ``open_file``."""

from __future__ import annotations

from typing import Any, Protocol

from seekpoint.consumers.sqlite.sqlite_file import SqliteFile

__all__ = ["OpenFile"]


class OpenFile(Protocol):
    """Opens a file of the test's folder, once more each time. ``settings`` are those of a new journal."""

    def __call__(self, name: str = "runs.db", *, must_exist: bool = False, **settings: Any) -> SqliteFile: ...
