"""Exceptions of many kinds, what code can observe of each, and code that runs three times: as each run sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import pytest

from seekpoint.producers import Node, NotDone, Process, agent, check_replay, register_failure
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import LimitExceeded, Refused, UnknownProcess

__all__ = ["ERRORS", "Unregistered", "each_run", "observed"]


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
