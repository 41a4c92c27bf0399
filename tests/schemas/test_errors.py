"""Every error says what, where and what next; the tree, the page and the classes are the same."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest

from seekpoint.schemas import errors
from seekpoint.schemas.error_page import error_page, error_table
from seekpoint.schemas.errors import Fenced, SeekpointError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
CLASSES: list[type[SeekpointError]] = [getattr(errors, name) for name in errors.__all__]
KINDS = {errors.Retryable, errors.HandleLost, errors.Refused, errors.OperatorRequired}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_says_when_and_what_next(kind: type[SeekpointError]) -> None:
    """A docstring, a hint, an exit code of the command line's."""
    assert kind.__doc__
    assert kind.__doc__.endswith(".")
    assert kind.hint
    assert not kind.hint.endswith(".")
    assert kind.exit_code in (1, 2, 3, 4)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_of_one_of_the_four_kinds(kind: type[SeekpointError]) -> None:
    """Split by what the caller can do; the kinds themselves are for catching."""
    assert kind in {SeekpointError, *KINDS} or len(KINDS & set(kind.__mro__)) == 1


def drawn_tree() -> dict[str, str]:
    """Class to parent, as the module's docstring draws them."""
    found, path = {}, ["SeekpointError"]
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:│   |    )*)[├└]── (\w+)", line)
        if match:
            depth = len(match[1]) // 4 + 1
            del path[depth:]
            found[match[2]] = path[-1]
            path.append(match[2])
    return found


def test_the_drawn_tree_is_the_tree() -> None:
    """Every class is drawn, under its parent, and none besides."""
    assert drawn_tree() == {kind.__name__: kind.__mro__[1].__name__ for kind in CLASSES if kind is not SeekpointError}


def test_all_classes_are_exported() -> None:
    """What is defined is in __all__."""
    defined = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert defined == set(errors.__all__)


def test_str_is_the_message_the_facts_and_the_hint() -> None:
    """In one line; facts that are not known are left out."""
    error = Fenced("another owner", process_id="p", seq=3, offset=None)
    assert str(error) == f"another owner (process_id=p, seq=3); {Fenced.hint}"
    assert str(Fenced("another owner")) == f"another owner; {Fenced.hint}"
    assert str(Fenced("x", hint="do this")) == "x; do this"


def test_facts_are_attributes() -> None:
    """What is not known is no attribute."""
    error = Fenced("x", process_id="p", offset=0)
    assert (error.process_id, error.offset) == ("p", 0)
    with pytest.raises(AttributeError):
        error.seq  # noqa: B018  # reading it is the test
    assert not hasattr(Fenced.__new__(Fenced), "process_id")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_pickle(kind: type[SeekpointError], take: type) -> None:
    """Worker processes hand them on: type, message, facts and hint."""
    error = kind("what", hint="next", process_id="p", path="$.a")
    back = take(error)
    assert type(back) is kind
    assert (str(back), back.facts, back.process_id) == (str(error), error.facts, "p")


def test_the_page_of_errors_is_current() -> None:
    """If not: python -m seekpoint.schemas.error_page > docs/errors.md"""
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
