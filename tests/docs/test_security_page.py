"""SECURITY.md: each promise names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def test_each_named_test_exists() -> None:
    """In the file that is named, by that name."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 35
    assert [f"{file}::{name}" for file, name in named if name not in _tests_of(ROOT / file)] == []


def test_each_line_that_promises_something_names_a_test() -> None:
    """In the tables whose second column is the test."""
    inside, lines = False, 0
    for line in PAGE.splitlines():
        inside = line.startswith("|") and (inside or line.endswith("| test |"))
        if inside and not line.endswith("| test |") and not line.startswith("|---"):
            lines += 1
            assert re.search(r"`tests/[\w/]+\.py::\w+`", line), line
    assert lines > 25


def _tests_of(file: Path) -> set[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, defined)}
