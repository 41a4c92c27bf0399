"""Every error says what, where and what next; the drawn tree and the classes are the same."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from seekpoint.schemas import errors
from seekpoint.schemas.errors import Fenced, SeekpointError

CLASSES: list[type[SeekpointError]] = [getattr(errors, name) for name in errors.__all__]
KINDS = {errors.Retryable, errors.HandleLost, errors.Refused, errors.OperatorRequired}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_says_when_and_what_next(kind: type[SeekpointError]) -> None:
    """Every class has a docstring and a hint."""
    assert kind.__doc__
    assert kind.__doc__.endswith(".")
    assert kind.hint
    assert not kind.hint.endswith(".")


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
    """A fact that is not known is None."""
    error = Fenced("x", process_id="p", offset=0)
    assert (error.process_id, error.offset, error.seq, error.new_node) == ("p", 0, None, None)
    assert error.facts == {"process_id": "p", "offset": 0}
    error.seq = 4
    assert error.facts == {"process_id": "p", "offset": 0, "seq": 4}


def test_only_declared_facts_are_taken() -> None:
    """A class takes the facts that it and its bases declare, and no others."""
    with pytest.raises(TypeError, match="Fenced declares no fact low"):
        Fenced("x", process_id="p", low=0)  # type: ignore[call-arg]  # a type checker refuses it too


def test_a_restored_error_hides_nothing_of_its_class() -> None:
    """Facts of another version are kept; names of methods, of the message and private names are not."""
    facts = {"offset": 3, "unheard_of": 1, "facts": 1, "with_traceback": 1, "message": 1, "hint": 1, "_declared": 1}
    error = Fenced.restored("what", None, facts)
    assert (error.message, error.hint, error.facts) == ("what", Fenced.hint, {"offset": 3, "unheard_of": 1})
    assert str(error) == f"what (offset=3, unheard_of=1); {Fenced.hint}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_pickle(kind: type[SeekpointError], take: type) -> None:
    """Worker processes hand them on: type, message, facts and hint."""
    error = kind("what", hint="next", process_id="p", seq=1)
    back = take(error)
    assert type(back) is kind
    assert (str(back), back.facts, back.process_id) == (str(error), error.facts, "p")
