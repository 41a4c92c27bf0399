"""Whatever code can observe of a call is the same in the first run, in a replay, and in a replay check. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from observed_errors import ERRORS, Unregistered, each_run, observed
from seekpoint.producers import Effect, Process, agent
from seekpoint.schemas.errors import EffectUnknown, SeekpointError


class Point(NamedTuple):
    """A model."""

    x: int
    y: Any


@dataclass
class Order:
    """Another one."""

    number: int
    amount: Decimal = Decimal("1.0")


VALUES: list[Any] = [
    None, True, 0, -1, 2**53, 2**70, 1.0, -0.0, "", "é\U0001f600", b"\x00", [], {}, (), [1, (2, [3])], {"b": 1, "a": 2},
    {"z": {"y": 1, "x": [{"d": 1, "c": 2}]}}, {3, 1, 2}, frozenset({"a"}), {"$tuple": [1]}, {"$x": 1}, Decimal("1.10"),
    datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2), date(2026, 1, 2), time(3, 4), timedelta(seconds=-1.5),
    UUID(int=7), [{"b": 1, "a": 2}] * 3, "cut \ud83d", Fraction(1, 2), {1: 2}, float("nan"), object(),
]  # fmt: skip


async def break_off(error: Exception) -> AsyncIterator[Any]:
    yield {"b": "The ", "a": 1}
    yield {"b": "answer", "a": 2}
    raise error


async def in_loop(stream: Any) -> tuple[list[Any], BaseException | None]:
    chunks: list[Any] = []
    try:
        async for chunk in stream:
            chunks.append(chunk)  # noqa: PERF401  # those before an error count
    except Exception as exc:
        return chunks, exc
    return chunks, None


@agent("child")
async def child(process: Process, name: str) -> Any:
    """Ends as it is told."""
    if name in ERRORS:
        raise ERRORS[name]()
    return VALUES[int(name)]


Made = Callable[[Process, str, Callable[..., Any]], Any]
KINDS: dict[str, Made] = {
    "step": lambda process, name, body: process.step("call", body, name),
    "step that is late": lambda process, name, body: process.step("call", body, name, timeout=60),
    "tool": lambda process, name, body: process.tool("call", body, name),
    "wrapped tool": lambda process, name, body: process.wrap_tool(body, "call")(name),
    "decision": lambda process, name, body: process.decide("call", body, name),
    "wrapped model": lambda process, name, body: process.wrap_model(body, "call")(name),
    "effect": lambda process, name, body: process.effect("call", body, name),
    "observation": lambda process, name, body: process.effect("call", body, name, semantics=Effect.OBSERVE_ONLY),
    "sample": lambda process, name, body: process.sample("call", lambda: body(name)),
    "child": lambda process, name, body: process.spawn(child, f"child-{name}", name).result(),
    "branch": lambda process, name, body: process.gather(process.step("call", body, name)),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_is_the_same_in_each_run(kind: str) -> None:
    """Text, arguments, attributes, notes, causes; of each kind of call."""
    made = KINDS[kind]
    in_doubt = {"TimeoutError"} if kind in ("effect", "observation") else set()  # no failure: the outcome is unknown

    async def main(process: Process, seen: list[Any]) -> None:
        for name in [one for one in ERRORS if one not in in_doubt]:

            def body(*_: Any, name: str = name) -> Any:
                raise ERRORS[name]()

            try:
                await made(process, name, body)
            except Exception as exc:
                seen.append((name, observed(exc)))

    first, again, checked = await each_run(main)
    for one, other, third in zip(first, again, checked, strict=True):
        assert one == other == third
    assert len(first) == len(ERRORS) - len(in_doubt)
    found = dict(first)
    assert found["notes"][5] == ["row 7", "col ?"]
    assert found["chained"][6][0] is KeyError
    assert found["unknown cause"][6][1] == f"{Unregistered.__module__}.Unregistered: why"
    assert found["missing file"][0] is FileNotFoundError


@pytest.mark.parametrize("kind", KINDS)
async def test_a_value_is_the_same_in_each_run(kind: str) -> None:
    """With the order of its keys; or the same error, if it is refused."""
    made = KINDS[kind]

    async def main(process: Process, seen: list[Any]) -> None:
        for at, _ in enumerate(VALUES):

            def body(*_: Any, at: int = at) -> Any:
                return VALUES[at]

            try:
                seen.append(repr(await made(process, str(at), body)))
            except SeekpointError as exc:
                seen.append(observed(exc))

    first, again, checked = await each_run(main)
    for one, other, third in zip(first, again, checked, strict=True):
        assert one == other == third
    assert len(first) == len(VALUES)


@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_stream_that_breaks_off_gives_the_same_chunks_in_each_run(is_blocking: bool) -> None:
    """And the same error behind them."""

    async def main(process: Process, seen: list[Any]) -> None:
        for name, error in ERRORS.items():

            def blocking(_: Any, error: Callable[[], Exception] = error) -> Iterator[Any]:
                yield {"b": 1, "a": 2}
                raise error()

            async def asynchronous(_: Any, error: Callable[[], Exception] = error) -> AsyncIterator[Any]:
                yield {"b": 1, "a": 2}
                yield "two"
                raise error()

            call: Any = blocking if is_blocking else asynchronous
            chunks, exc = await in_loop(process.decide_stream("ask", call, name))
            seen.append((name, repr(chunks), observed(exc)))

    first, again, checked = await each_run(main)
    for one, other, third in zip(first, again, checked, strict=True):
        assert one == other == third
        assert one[1].startswith("[{'a': 2, 'b': 1}")


async def test_a_stream_gives_the_same_values_in_each_run() -> None:
    """Chunks are rebuilt in the first run too; one that cannot be recorded ends all alike."""

    async def main(process: Process, seen: list[Any]) -> None:
        for at, value in enumerate(VALUES):

            async def stream(_: Any, value: Any = value) -> AsyncIterator[Any]:
                yield "first"
                yield value
                yield "last"

            chunks, exc = await in_loop(process.decide_stream("ask", stream, at))
            seen.append((repr(chunks), observed(exc)))

    first, again, checked = await each_run(main)
    for one, other, third in zip(first, again, checked, strict=True):
        assert one == other == third


async def test_chunks_of_models_are_the_same_in_each_run() -> None:
    """Those of a stream that broke off are rebuilt by the annotation, as those of a whole one."""

    async def orders(given: Any) -> AsyncIterator[Order]:
        yield Order(1)
        yield Order(2, Decimal("2.50"))
        if given == "broken":
            raise ConnectionError("broken")

    async def main(process: Process, seen: list[Any]) -> None:
        for given in ("whole", "broken"):
            chunks, exc = await in_loop(process.decide_stream("ask", orders, given))
            seen.append((repr(chunks), observed(exc)))

    first, again, checked = await each_run(main)
    assert first == again == checked
    assert [one[0] for one in first] == [repr([Order(1), Order(2, Decimal("2.50"))])] * 2


async def test_an_effect_that_nobody_knows_says_the_same_in_each_run() -> None:
    """Code that catches the error and notes its text goes on."""

    async def main(process: Process, seen: list[Any]) -> None:
        for name in ("unregistered", "missing file", "rich", "chained"):

            def body(*_: Any, name: str = name) -> Any:
                raise ERRORS[name]()

            try:
                await process.effect("pay", body, name, semantics=Effect.AT_MOST_ONCE)
            except EffectUnknown as exc:
                seen.append(observed(exc))

    first, again = await each_run(main, is_checked=False)  # such an effect is where a check ends
    assert first == again
    assert len(first) == 4


async def test_a_step_that_is_late_fails_alike_in_each_run() -> None:
    """Its TimeoutError has no cause of asyncio's."""

    async def main(process: Process, seen: list[Any]) -> None:
        try:
            await process.step("wait", asyncio.sleep, 60, timeout=0.01)
        except TimeoutError as exc:
            seen.append(observed(exc))

    first, again, checked = await each_run(main)
    assert first == again == checked
    assert first[0][6:8] == (None, None)
