"""Annotations of functions: which of them say how results are rebuilt, and what reading them keeps. Pure."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

import pytest

from payload_models import Colour, Item
from seekpoint.producers.durable.steps import annotations as reading
from seekpoint.producers.durable.steps.annotations import agent_types, rebuilt_arguments, result_type
from seekpoint.schemas.errors import RecordedValueInvalid


def plain(a: int) -> dict[str, Any]: ...  # type: ignore[empty-body]
def mapping() -> Mapping[str, tuple[int, ...]]: ...  # type: ignore[empty-body]
def nothing(): ...  # type: ignore[no-untyped-def]
def missing() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
def item() -> Item: ...  # type: ignore[empty-body]
async def coroutine() -> Item: ...  # type: ignore[empty-body]
def awaitable() -> Awaitable[Item]: ...  # type: ignore[empty-body]
async def stream() -> AsyncIterator[Item]: ...  # type: ignore[empty-body]
def blocking_stream() -> Iterator[Item]: ...  # type: ignore[empty-body]
def forward() -> list[Item | None]: ...  # type: ignore[empty-body]


class Tools:
    """Callables of other kinds."""

    def method(self) -> Item: ...  # type: ignore[empty-body]

    def __call__(self) -> Colour: ...  # type: ignore[empty-body]


def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as decorators of other modules make them."""

    @wraps(call)
    def wrapper(*given: Any) -> Any:
        return call(*given)

    return wrapper


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (item, "Item"),
        (coroutine, "Item"),
        (awaitable, "Item"),
        (stream, "list[Item]"),
        (blocking_stream, "list[Item]"),
        (forward, "list[Item | None]"),
        (Tools().method, "Item"),
        (Tools(), "Colour"),
        (partial(item), "Item"),
        (partial(Tools().method), "Item"),
        (wrapped(item), "Item"),
    ],
)
def test_results_are_rebuilt_by_the_annotation_of_the_function(call: Callable[..., Any], shown: str) -> None:
    """Behind a method, a partial function, a callable object or a wrapper; of a stream it is the list of its chunks."""
    for _ in range(2):  # found, and known from then on
        found = result_type(call)
        assert found is not None
        assert found.shown == shown


@pytest.mark.parametrize("call", [plain, mapping, nothing, missing, len, "{}".format, lambda: 1, Item, dict])
def test_an_annotation_without_models_leaves_results_alone(call: Callable[..., Any]) -> None:
    """As does one that cannot be evaluated, and a callable that has none."""
    assert result_type(call) is None
    assert result_type(call) is None


def test_a_function_that_is_gone_is_forgotten() -> None:
    """Local functions are made again in each run: what is known of them must not grow."""
    gc.collect()
    before = len(reading._known)
    for _ in range(100):

        def local() -> Item:
            return Item("a")

        assert result_type(local) is not None
    del local
    gc.collect()
    assert len(reading._known) == before


def test_recorded_arguments_are_rebuilt_by_position_and_by_name() -> None:
    """Those whose annotations name models; others stay what they are."""

    def call(first: Item, second: Any, *rest: Any, colour: Colour, other: int = 0, **more: Any) -> None: ...

    row = {"name": "a"}
    given, options = rebuilt_arguments(call, [row, row, row], {"colour": "red", "other": "x", "more": row}, "undo/a:1")
    assert given == (Item("a"), row, row)
    assert options == {"colour": Colour.RED, "other": "x", "more": row}
    assert rebuilt_arguments(len, [row], {}, "a") == ((row,), {})
    with pytest.raises(RecordedValueInvalid, match="the argument colour of undo/a:1 does not fit Colour"):
        rebuilt_arguments(call, [row, row], {"colour": "green"}, "undo/a:1")


def test_an_agent_has_the_types_of_its_second_parameter_and_its_result() -> None:
    """Whatever the first parameter is annotated with: its class may be known to type checkers only."""

    async def run(process: Process, given: list[int]) -> Item: ...  # type: ignore[empty-body,name-defined]  # noqa: F821
    async def alone(process: Any) -> int: ...  # type: ignore[empty-body]

    found = agent_types(run)
    assert found.input is not None
    assert found.output is not None
    assert (found.input.shown, found.output.shown, found.unevaluated) == ("list[int]", "Item", None)
    assert agent_types(alone) == (None, None, None)
    assert agent_types(len) == (None, None, None)
