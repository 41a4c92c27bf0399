"""Which classes a recorded failure is rebuilt as: a name in a journal leads to no import, and to no user's code."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers import register_failure
from seekpoint.producers.durable.failures import failure_classes
from seekpoint.producers.durable.failures.recorded_failures import (
    failure_text,
    failure_to_raise,
    is_undone,
    mark_undone,
    recorded_failure,
)
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import EffectFailed, Fenced, Refused, ReplayDivergence, StepFailed

PLAIN = Settings()
RAN: list[Any] = []


@register_failure
class Careful(Exception):
    """Registered; every way to run code of it is watched."""

    def __new__(cls, *arguments: Any, **options: Any) -> Careful:
        RAN.append("new")
        return super().__new__(cls, *arguments)

    def __init__(self, *arguments: Any, code: int = 0) -> None:
        RAN.append("init")
        super().__init__(*arguments)
        self.code = code

    def __setattr__(self, name: str, value: Any) -> None:
        RAN.append(name)
        super().__setattr__(name, value)

    def explain(self) -> str:
        """What an attribute of this name must not hide."""
        return "explained"


class Unregistered(Exception):
    """Loaded, and at the top level of its module."""


def recorded(name: str, **data: Any) -> str:
    return json.dumps({"type": name, "message": "m", "data": data})


def test_a_name_in_a_journal_imports_nothing(tmp_path: Path) -> None:
    """A module of that name lies on the path, and would end the program."""
    (tmp_path / "hostile.py").write_text("raise SystemExit(7)\nclass Error(Exception): pass\n")
    script = (
        "import sys; from seekpoint.producers.durable.failures.recorded_failures import recorded_failure\n"
        "for name in ('hostile:Error', 'this:Error', 'hostile:', 'builtins:SystemExit', 'os:system'):\n"
        '    made = recorded_failure(\'{"type":"\' + name + \'","message":"m","data":{"args":["exit 9"]}}\')\n'
        "    assert type(made).__name__ == 'StepFailed' and made.type == name, made\n"
        "assert not {'hostile', 'this'} & sys.modules.keys()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "name",
    [
        f"{__name__}:Unregistered", f"{__name__}:Careful.__base__", "builtins:BaseException", "builtins:SystemExit",
        "builtins:KeyboardInterrupt", "builtins:GeneratorExit", "builtins:BaseExceptionGroup", "builtins:eval",
        "asyncio.exceptions:CancelledError", "json.decoder:JSONDecodeError", "seekpoint.schemas.errors:annotations",
        "seekpoint.schemas.errors:Any", "seekpoint.schemas.errors:_rebuild", f"{Fenced.__module__}:Fenced",
        f"{ReplayDivergence.__module__}:ReplayDivergence",
    ],
)  # fmt: skip
def test_what_is_not_registered_is_a_step_that_failed(name: str) -> None:
    """With the name as text. Builtin exceptions that no ``except Exception`` catches never leave a record."""
    made = recorded_failure(recorded(name, args=["m"]), key="pay:1")
    assert type(made) is StepFailed
    assert (made.type, made.key, made.message) == (name, "pay:1", "m")


def test_a_registered_class_is_rebuilt_without_running_its_code() -> None:
    """Its arguments and attributes come back; nothing that it defines is called, and none of its methods is hidden."""
    error = Careful("no", 7, code=3)
    text = failure_text(error, PLAIN)
    RAN.clear()
    made = recorded_failure(text)
    assert isinstance(made, Careful)
    assert (made.args, made.code, str(made), RAN) == (("no", 7), 3, str(error), [])
    hostile = {"explain": "x", "with_traceback": "x", "add_note": "x", "__class__": "x", "args": "x", "code": 4}
    made = recorded_failure(recorded(f"{__name__}:Careful", args=["no"], attributes=hostile))
    assert isinstance(made, Careful)
    assert (vars(made), made.explain(), made.args, RAN) == ({"code": 4}, "explained", ("no",), [])


HOSTILE: list[tuple[str, Any]] = [
    ("UnicodeDecodeError", ["utf-8", {"$bytes": ""}, -(2**60), -(2**60) + 1, "x"]),
    ("UnicodeDecodeError", ["utf-8", {"$bytes": "YQ=="}, -5, -4, "x"]),
    ("UnicodeDecodeError", ["utf-8", {"$bytes": "YQ=="}, 1, 2, "x"]),
    ("UnicodeDecodeError", ["utf-8", "a", 0, 1, "x"]),
    ("UnicodeEncodeError", ["utf-8", "", -(2**60), -(2**60) + 1, "x"]),
    ("UnicodeEncodeError", ["utf-8", "a", 2**40, 2**40 + 1, "x"]),
    ("UnicodeEncodeError", [None, "a", 0, 1, "x"]),
    ("UnicodeTranslateError", ["", -(2**60), -(2**60) + 1, "x"]),
    ("UnicodeTranslateError", ["a", 0, True, "x"]),
    ("SyntaxError", ["m", ["f.py", 1, 1, "text", 1, 400_000_000]]),
    ("SyntaxError", ["m", ["f.py", 1, 400_000_000, "text", 1, 2]]),
    ("IndentationError", ["m", ["f.py", 1, "1", "text", 1, 2]]),
    ("ExceptionGroup", ["m", []]),
    ("OSError", [2**70, {"a": 1}, [], None, 5]),
    ("BlockingIOError", [11, "m", 2**70]),
    ("ImportError", [[1], {"a": 2}]),
    ("StopIteration", [[1]]),
    ("MemoryError", [2**70]),
]


@pytest.mark.parametrize("as_members", [False, True])
@pytest.mark.parametrize(("name", "arguments"), HOSTILE)
def test_no_record_reaches_into_a_builtin_of_c(name: str, arguments: list[Any], as_members: bool) -> None:
    """No memory is read, nothing is printed without bound: a plain error object, which can be shown."""
    data: dict[str, Any] = {"args": {"$tuple": arguments}}
    if as_members:
        flat = [one for value in arguments for one in (value if isinstance(value, list) else [value])]
        kind = getattr(builtins, name)
        found = next((names for one, names in failure_classes._MEMBERS.items() if issubclass(kind, one)), ())
        data = {"members": dict(zip(found, flat, strict=False))}
    made = recorded_failure(json.dumps({"type": f"builtins:{name}", "message": "m", "data": data}))
    shown = "".join(traceback.format_exception(made))
    assert len(shown) < 12_000
    if name.startswith(("Unicode", "Syntax", "Indent", "ExceptionGroup")):
        assert type(made) is StepFailed


def test_a_new_builtin_with_a_layout_of_its_own_is_not_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not in the list keeps fields that nobody has checked."""
    monkeypatch.delitem(failure_classes._MEMBERS, OSError)
    assert type(recorded_failure(recorded("builtins:OSError", args=[2, "no"]))) is StepFailed


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("UnicodeDecodeError", ["x", {"$bytes": "YcM="}, 1, 2, ""], "'x' codec can't decode byte 0xc3 in position 1: "),
        ("UnicodeEncodeError", ["x", "aé", 1, 2, "y"], "'x' codec can't encode character '\\xe9' in position 1: y"),
        ("FileNotFoundError", [2, "gone"], "[Errno 2] gone"),
        ("SyntaxError", ["bad", {"$tuple": ["f.py", 3, 1, "a b", 3, 2]}], "bad (f.py, line 3)"),
        ("ImportError", ["no"], "no"),
        ("KeyError", ["k"], "'k'"),
    ],
)  # fmt: skip
def test_a_failure_that_an_older_version_recorded_is_rebuilt_as_then(name: str, arguments: Any, shown: str) -> None:
    """It has arguments only: members are what the constructor would make of them."""
    made = recorded_failure(recorded(f"builtins:{name}", args={"$tuple": arguments}), process_id="p", key="a:1", seq=3)
    assert (type(made).__name__, str(made)) == (name, shown)
    made = recorded_failure(recorded("lib:Error"), process_id="p", key="a:1", seq=3)
    assert isinstance(made, StepFailed)
    assert (made.process_id, made.key, made.seq) == ("p", "a:1", 3)


def test_the_first_run_raises_what_a_replay_raises() -> None:
    """The same class: the registered one itself, and StepFailed for one that is not registered."""
    for error in (Careful("no"), Unregistered("no"), ValueError("no"), EffectFailed("no", key="k")):
        text = failure_text(error, PLAIN)
        assert type(failure_to_raise(error, text)) is type(recorded_failure(text))


def test_an_attribute_in_a_record_hides_no_fact_of_an_error() -> None:
    """Facts and message are attributes too: what is shown is the error's own, and it can be shown."""
    data = {"facts": [["key", "k"]], "attributes": {"facts": 5, "message": 7}}
    kind = f"{EffectFailed.__module__}:EffectFailed"
    made = recorded_failure(json.dumps({"type": kind, "message": "no", "data": data}))
    assert isinstance(made, EffectFailed)
    assert (made.message, made.facts) == ("no", {"key": "k"})
    assert str(made).startswith("no (key=k)")


@pytest.mark.parametrize("wrong", [SystemExit, KeyboardInterrupt, int, "ValueError", ValueError("x"), None])
def test_only_exception_classes_can_be_registered(wrong: Any) -> None:
    """What ends a program is never recorded."""
    with pytest.raises(Refused):
        register_failure(wrong)


def test_a_class_of_a_function_cannot_be_registered() -> None:
    """Its name is that of every class which the function makes."""

    class Local(Exception):
        pass

    with pytest.raises(Refused, match="top level"):
        register_failure(Local)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["args", "attributes", "facts", "hint", "self", "message", "__dict__", "__traceback__", "__cause__", "x"]
)
TYPES = st.sampled_from(
    [f"{__name__}:Careful", f"{EffectFailed.__module__}:EffectFailed", "x:y", ":", "builtins:KeyError"]
    + [f"builtins:{one}" for one in ("OSError", "UnicodeDecodeError", "ExceptionGroup", "StopIteration", "ImportError")]
)


@given(
    st.dictionaries(st.sampled_from(["message", "retryable", "undone", "where"]), ANY),
    TYPES | ANY,
    st.dictionaries(NAMES, ANY | st.lists(st.tuples(NAMES, ANY), max_size=3)) | ANY,
)
def test_whatever_a_record_says_an_exception_is_made(more: dict[str, Any], kind: Any, data: Any) -> None:
    """Never a BaseException, never an error of our own making; and its word on what was undone can be read."""
    text = json.dumps({**more, "type": kind, "data": data})
    RAN.clear()
    assert isinstance(recorded_failure(text, key="k"), Exception)
    assert isinstance(recorded_failure(json.dumps(data), key="k"), Exception)
    assert is_undone(text) is (more.get("undone") is True)
    assert is_undone(mark_undone(text))
    assert not RAN
