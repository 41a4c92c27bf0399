"""docs/errors.md and the error classes say the same, exit codes included."""

from __future__ import annotations

from pathlib import Path

import pytest

from seekpoint.console.error_exit_codes import exit_code_of
from seekpoint.console.render.error_page import error_page, error_table
from seekpoint.schemas import errors
from seekpoint.schemas.errors import SeekpointError

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
CLASSES: list[type[SeekpointError]] = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_an_exit_code(kind: type[SeekpointError]) -> None:
    """The code is one of those that docs/cli.md lists for errors."""
    assert exit_code_of(kind) in (1, 2, 3, 4)


def test_a_users_own_subclass_has_the_exit_code_of_its_base() -> None:
    """A class that the console does not know counts as its nearest base."""

    class Mine(errors.UnserializableValue):
        """Mine."""

    assert exit_code_of(Mine) == exit_code_of(errors.UnserializableValue) == 2


def test_the_page_of_errors_is_current() -> None:
    """If not: python -m seekpoint.console.render.error_page > docs/errors.md"""
    assert PAGE.read_text() == error_page()


def test_the_page_has_every_class_once() -> None:
    """With its exit code, and what to do."""
    page = error_page()
    for kind in CLASSES:
        if kind is not SeekpointError:
            assert page.count(f"| `{kind.__name__}` |") == 1
    assert "| `Fenced` | Another owner" in error_table()


def test_a_users_own_subclass_is_not_on_the_page() -> None:
    """The page is the library's, whatever is imported beside it."""

    class Mine(errors.Refused):
        """Mine."""

    assert "Mine" not in error_page()
