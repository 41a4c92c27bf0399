"""Our frozen dataclasses are the standard library's in all but what they cost."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from dataclasses import field
from typing import Any, ClassVar, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Ours."""

    KIND: ClassVar[str] = "point"

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    secret: str = field(default="s", repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The standard library's."""

    KIND: ClassVar[str] = "point"

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)
    secret: str = field(default="s", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Named(Point):
    """A subclass with a field more, by name only from here on."""

    _: dataclasses.KW_ONLY
    name: str = "n"
    width: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", len(self.name))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Quiet:
    """It says what it likes."""

    word: str

    def __repr__(self) -> str:
        return "Quiet(...)"

    def __eq__(self, other: object) -> bool:
        return other == "anything"

    __hash__ = None  # type: ignore[assignment]


@given(st.integers(), st.integers(), st.lists(st.text(max_size=3), max_size=3), st.text(max_size=3))
def test_it_says_holds_and_compares_what_the_standard_one_does(x: int, y: int, tags: list[str], secret: str) -> None:
    """Text, equality, tuple of fields: the same for all arguments."""
    ours, theirs = Point(x, y, tags, secret), Standard(x, y, tags=tags, secret=secret)
    assert repr(ours) == repr(theirs).replace("Standard", "Point")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert (ours == Point(x, 2, tags)) == (theirs == Standard(x, 2, tags))
    assert dataclasses.replace(ours, x=0) == Point(0, y, tags)


def test_defaults_are_made_anew_each_time() -> None:
    """A factory is called for each."""
    assert Point(1) == Point(1, 2, [])
    assert Point(1).tags is not Point(1).tags


def test_equal_ones_have_one_hash_and_other_classes_are_not_equal() -> None:
    """Also of a subclass; the standard one's rule."""
    assert len({Key("a"), Key("a"), Key("b")}) == 2
    others: list[Any] = [Other("a"), "a", None]
    assert Key("a") not in others
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


@dataclass(frozen=True, slots=True)
class Key:
    """One field: compared as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class Other:
    """Another class of the same shape."""

    name: str


@dataclass(frozen=True, slots=True)
class Empty:
    """No field at all."""


def test_nothing_is_set_or_deleted_and_nothing_is_added() -> None:
    """Frozen, with slots."""
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.more = 3  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_equal(copied: Any) -> None:
    """Shallow, deep, pickled: though nobody may set a field."""
    point = Point(1, 3, ["a"], "t")
    assert copied(point) == point
    assert copied(point).secret == "t"


def test_the_signature_is_known_before_the_first_one_is_made() -> None:
    """As ``help`` shows it."""

    @dataclass(frozen=True, slots=True)
    class Fresh:
        a: int
        b: str = "x"

    assert list(inspect.signature(Fresh).parameters) == ["a", "b"]
    assert inspect.signature(Fresh).parameters["b"].default == "x"
    assert "_NOT_GIVEN" not in str(inspect.signature(Point))


def test_a_subclass_has_its_fields_behind_and_by_name() -> None:
    """Inherited ones first; ``__post_init__`` runs last; what is not of the constructor has its default."""
    named = Named(1, 3, name="four")
    assert (named.x, named.y, named.tags, named.name, named.width) == (1, 3, [], "four", 4)
    with pytest.raises(TypeError):
        Named(1, 3, [], "s", "four")  # type: ignore[call-arg]


def test_wrong_arguments_are_refused_as_ever() -> None:
    """Missing, unknown, twice."""
    make: Any = Point
    for arguments, named in (((), {}), ((1,), {"z": 2}), ((1,), {"x": 1})):
        with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
            make(*arguments, **named)


def test_what_a_class_says_of_itself_stays() -> None:
    """Its own text, equality and hash are not replaced."""
    quiet = Quiet(word="w")
    assert repr(quiet) == "Quiet(...)"
    assert quiet == "anything"
    with pytest.raises(TypeError, match="unhashable"):
        hash(quiet)


def test_a_constructor_of_its_own_stays() -> None:
    """Written in the class, it is the class's."""

    @dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "a", len(text))

    assert Own("abc").a == 3


def test_one_that_is_not_frozen_is_the_standard_librarys() -> None:
    """Nothing is changed about it."""

    @dataclass(slots=True)
    class Open:
        a: int = 1

    one = Open()
    one.a = 2
    assert one == Open(2)


def test_no_constructor_is_compiled_at_import() -> None:
    """The point of it: it is there when somebody first asks."""

    @dataclass(frozen=True, slots=True)
    class Later:
        a: int = 1

    assert not inspect.isfunction(Later.__dict__["__init__"])
    assert Later().a == 1
    assert inspect.isfunction(Later.__dict__["__init__"])


def test_what_is_compared_is_a_tuple_also_of_one_field() -> None:
    """NaN equals itself, and the hash is the same in every run that seeds its hashes: no address is in it."""
    assert Key("a") == Key("a")
    assert Key(float("nan")) != Key(float("nan"))  # type: ignore[arg-type]
    nan: Any = float("nan")
    assert Key(nan) == Key(nan)
    assert [hash(Key("a")), hash(Empty()), hash(Span(1, 2))] == [hash(("a",)), hash(()), hash((1, 2))]


@dataclass(frozen=True, slots=True)
class Span:
    """Two fields."""

    first: int
    last: Any


def test_one_that_holds_itself_is_told_once() -> None:
    """As a list is."""
    span = Span(1, [])
    span.last.append(span)
    assert repr(span) == "Span(first=1, last=[...])"


def test_annotations_of_the_constructor_are_resolved_where_the_class_is() -> None:
    """What frameworks and documentation tools ask; its own module may not know the names."""
    assert get_type_hints(Settings.__init__)["return"] is type(None)
    assert get_type_hints(Named.__init__)["tags"] == list[str]
    assert inspect.signature(Named, eval_str=True).parameters["name"].annotation is str


def test_the_standard_decorator_makes_subclasses_of_it() -> None:
    """An application's settings may have a field more; one that is not frozen is refused when it is made."""

    @dataclasses.dataclass(frozen=True)
    class More(Point):
        more: int = 5

    assert (More(1), More(1).x, More(1, more=6).more) == (More(1, 2, []), 1, 6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        More(1).more = 7  # type: ignore[misc]
    assert dataclasses.replace(More(1), x=3) == More(3)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclasses.dataclass
        class Open(Point):  # type: ignore[misc]  # a type checker says it too
            more: int = 5

    said = Point.__dataclass_params__  # type: ignore[attr-defined]
    assert (said.init, said.repr, said.eq, said.order, said.frozen) == (True, True, True, False, True)


def test_the_first_ones_are_made_by_several_threads_at_once() -> None:
    """Whoever compiles the constructor, all get theirs."""
    for _ in range(50):

        @dataclass(frozen=True, slots=True)
        class Fresh:
            a: int
            b: int = 2

        start = threading.Barrier(4)
        made: list[Any] = []

        def first(cls: Any = Fresh, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append(cls(1))

        threads = [threading.Thread(target=first) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Fresh(1, 2)] * 4
