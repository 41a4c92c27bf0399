"""Each test asserts something: itself, or by a function of tests/ that it calls by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))
CHECKS = {"raises", "warns", "fail"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def calls(function: ast.AST) -> Iterator[str]:
    """Yield the names of the functions and methods that `function` calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                yield called.attr
            elif isinstance(called, ast.Name):
                yield called.id


def asserts(function: ast.AST) -> bool:
    """Whether `function` itself has an assertion of Python, pytest or a mock."""
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and "AssertionError" in ast.unparse(node))
        for node in ast.walk(function)
    ) or any(name in CHECKS or name.startswith("assert_") for name in calls(function))


@cache
def parse(file: Path) -> ast.Module:
    """Return the syntax tree of `file`."""
    return ast.parse(file.read_text())


@cache
def functions(file: Path) -> dict[str, list[Function]]:
    """Return the functions and methods of `file` by name; a class gives its name to its ``__init__``."""
    found: dict[str, list[Function]] = {}
    for node in ast.walk(parse(file)):
        if isinstance(node, Function):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            made = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"]
            found.setdefault(node.name, []).extend(made)
    return found


@cache
def visible_files(file: Path) -> tuple[Path, ...]:
    """Return `file` and the files of tests/ that it imports, directly or not."""
    modules = {each.stem: each for each in FILES if not each.stem.startswith("test_")}
    found = [file]
    for each in found:
        for node in ast.walk(parse(each)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [modules[name] for name in names if name in modules and modules[name] not in found]
    return tuple(found)


def asserts_anywhere(file: Path, function: Function) -> bool:
    """Whether `function`, or a function of tests/ that it reaches by name, asserts."""
    known: dict[str, list[Function]] = {}
    for each in visible_files(file):
        for name, found in functions(each).items():
            known.setdefault(name, []).extend(found)
    reached, seen = [function], set[str]()
    while reached:
        current = reached.pop()
        if asserts(current):
            return True
        for name in set(calls(current)) - seen:
            seen.add(name)
            reached += known.get(name, [])
    return False


def test_each_test_asserts_something() -> None:
    """A test without an assertion passes whatever the code returns."""
    silent = [
        f"{file.relative_to(TESTS)}:{function.lineno} {name}"
        for file in FILES
        for name, found in functions(file).items()
        for function in found
        if name.startswith("test_") and not asserts_anywhere(file, function)
    ]
    assert not silent, "\n".join(silent)


def test_a_test_that_only_calls_is_found(tmp_path: Path) -> None:
    """The audit sees a helper's assertion, and no assertion where there is none."""
    file = tmp_path / "test_example.py"
    file.write_text("def check(): assert True\ndef test_checks(): check()\ndef test_calls(): print()\n")
    found = {name: asserts_anywhere(file, each[0]) for name, each in functions(file).items()}
    assert found == {"check": True, "test_checks": True, "test_calls": False}
