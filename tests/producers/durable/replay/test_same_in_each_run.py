"""Whatever code can observe of a call is the same in the first run, in a replay, and in a replay check. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

import pytest

from seekpoint.producers import Effect, Node, NotDone, Process, agent, check_replay, register_failure
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import EffectUnknown, LimitExceeded, Refused, SeekpointError, UnknownProcess


class Unregistered(Exception):
    """A class that no record may name."""


@register_failure
class Rich(Exception):
    """Has attributes, some of which JSON cannot carry."""

    def __init__(self, text: str, **attributes: Any) -> None:
        super().__init__(text)
        vars(self).update(attributes)


@register_failure
class Slotted(Exception):
    """Keeps its code in a slot."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


@register_failure
class Formatted(LookupError):
    """Shows what it has not in its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"no {self.name}"


@register_failure
class Gone(FileNotFoundError):
    """A registered class over one of C."""


@register_failure
class Outside(Exception):
    """Its text is kept somewhere else than in the exception."""

    texts: ClassVar[WeakKeyDictionary[Outside, str]] = WeakKeyDictionary()

    def __init__(self) -> None:
        super().__init__()
        self.texts[self] = "no"

    def __str__(self) -> str:
        return self.texts.get(self, "")


class Color(Enum):
    """What JSON has not."""

    RED = "red"


def noted(error: Exception, *notes: str) -> Exception:
    for note in notes:
        error.add_note(note)
    return error


def caused(error: Exception, cause: BaseException | None) -> Exception:
    error.__cause__ = cause
    return error


def raised(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as exc:
        return exc
    raise AssertionError


def chained(is_suppressed: bool = False) -> None:
    try:
        raise KeyError("first")
    except KeyError as exc:
        if is_suppressed:
            raise ValueError("second") from None
        raise ValueError("second") from exc


def in_context() -> None:
    try:
        raise Unregistered("first")
    except Unregistered:
        raise ValueError("second")  # noqa: B904


ERRORS: dict[str, Callable[[], Exception]] = {
    **{kind.__name__: partial(kind, "no", 7) for kind in (
        Exception, ValueError, TypeError, KeyError, IndexError, LookupError, RuntimeError, NotImplementedError,
        RecursionError, ArithmeticError, ZeroDivisionError, OverflowError, AssertionError, AttributeError, NameError,
        EOFError, BufferError, MemoryError, SystemError, ReferenceError, UserWarning, UnicodeError, StopAsyncIteration,
        TimeoutError, PermissionError, OSError, ImportError, ModuleNotFoundError, SyntaxError,
    )},
    "empty": ValueError,
    "missing file": lambda: raised(lambda: open("/no/such/file")),  # noqa: SIM115
    "missing path": lambda: raised(lambda: Path("/no/such/file").read_text()),
    "two files": lambda: FileNotFoundError(2, "gone", "a", None, "b"),
    "bytes name": lambda: OSError(13, "denied", b"/name"),
    "text of an OSError": lambda: OSError("only text"),
    "blocked": lambda: BlockingIOError(11, "wait", 3),
    "import": lambda: ImportError("no module", name="x", path="/x.py"),
    "attribute": lambda: raised(lambda: None.x),  # type: ignore[attr-defined]
    "attribute of nothing": lambda: AttributeError("no", name="x"),
    "name": lambda: NameError("no", name="x"),
    "decode": lambda: raised(lambda: b"caf\xe9".decode()),
    "decode much": lambda: raised(lambda: (b"x" * 50_000 + b"\xe9").decode()),
    "encode": lambda: raised(lambda: "caf\ud83d".encode()),
    "encode ascii": lambda: raised(lambda: "café".encode("ascii")),
    "nothing to decode": lambda: UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
    "translate": lambda: UnicodeTranslateError("é", 0, 1, "no"),
    "syntax": lambda: raised(lambda: compile("a b c", "f.py", "exec")),
    "indentation": lambda: raised(lambda: compile(" a", "f.py", "exec")),
    "iteration": lambda: caused(RuntimeError("ended"), StopIteration(5)),
    "group": lambda: ExceptionGroup("some", [ValueError("no"), KeyError("k")]),
    "unordered dict": lambda: ValueError({"b": 1, "a": 2}),
    "ordered dict": lambda: ValueError({"a": 1, "b": 2}),
    "tagged": lambda: ValueError(1, 1.0, True, (1,), b"x", Decimal("1.10"), 2**70),
    "enum": lambda: KeyError(Color.RED),
    "object": lambda: ValueError(object()),
    "surrogate": lambda: ValueError("cut \ud83d"),
    "long": lambda: ValueError("x" * 100_000),
    "notes": lambda: noted(ValueError("no"), "row 7", "col \ud83d"),
    "chained": lambda: raised(chained),
    "suppressed": lambda: raised(lambda: chained(True)),
    "in context": lambda: raised(in_context),
    "unknown cause": lambda: caused(ValueError("no"), noted(Unregistered("why"), "n")),
    "system exit as cause": lambda: caused(ValueError("no"), SystemExit(3)),
    "many causes": lambda: caused(ValueError(1), caused(KeyError(2), caused(OSError(3), caused(ValueError(4),
        caused(ValueError(5), ValueError(6)))))),
    "unregistered": lambda: noted(Unregistered("no", 5), "n"),
    "rich": lambda: Rich("no", code=7, when=datetime(2026, 1, 2, tzinfo=UTC)),
    "rich with an object": lambda: Rich("no", code=7, response=object()),
    "rich with an odd order": lambda: Rich("no", headers={"b": 1, "a": 2}),
    "rich with a hidden method": lambda: Rich("no", add_note="x"),
    "outside": Outside,
    "slotted": lambda: Slotted(7),
    "formatted": lambda: Formatted("x"),
    "registered over C": lambda: Gone(2, "gone", "/f"),
    "ours": lambda: noted(Refused("no", hint="ask", seq=4, process_id="x", found={"b": 1, "a": Color.RED}), "n"),
    "ours with a cause": lambda: caused(UnknownProcess("no"), ValueError("x")),
    "too large": lambda: LimitExceeded("x", items=4),
    "not done": lambda: NotDone("no money"),
}  # fmt: skip


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


def observed(error: BaseException | None) -> Any:
    """Return all that code can read of an exception, as text."""
    if error is None:
        return None
    names = [name for name in dir(error) if not name.startswith("__")]
    read: list[Any] = []
    for name in names:
        try:
            value = getattr(error, name)
        except Exception as exc:
            value = repr(exc)
        read.append((name, "a method" if callable(value) else repr(value)))
    return (
        type(error), str(error), repr(error), repr(error.args), read, getattr(error, "__notes__", []),
        observed(error.__cause__), observed(error.__context__), error.__suppress_context__,
    )  # fmt: skip


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


class Stopped(Exception):
    """Ends the first run behind the calls."""


async def each_run(main: Callable[[Process, list[Any]], Any], *, is_checked: bool = True) -> list[list[Any]]:
    """Return what ``main`` saw in the first run, in a replay, and in a replay check, which must report nothing."""
    log = MemoryLog()
    seen: list[list[Any]] = []

    @agent("main")
    async def code(process: Process, _: Any) -> None:
        mine: list[Any] = []
        seen.append(mine)
        await main(process, mine)
        await process.step("end", str, repr(mine))
        if len(seen) < 2:
            raise Stopped

    async with Node.in_memory(log) as node:
        with pytest.raises(Exception):  # noqa: B017, PT011  # Stopped, or an effect in doubt
            await node.run(code, "p", None)
    async with Node.in_memory(log) as node:
        await node.run(code, "p", None)
        if not is_checked:
            return seen
        report = await check_replay(code, history_of(log, "p"))
    assert report.divergence is None
    assert len(seen) == 3
    return seen


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
    assert found["unknown cause"][6][1] == f"{__name__}.Unregistered: why"
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
