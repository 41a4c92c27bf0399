"""What type checkers say of programs that use Seekpoint: they infer results and find mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "tests" / "typing" / "examples").glob("*.py"))
EXPECTED = re.compile(r"  # wrong: \w")
MYPY_LINE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: ")

Places = set[tuple[str, int]]


def marked_lines() -> Places:
    """Return the lines of the examples that a checker has to refuse."""
    return {
        (path.name, number)
        for path in EXAMPLES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if EXPECTED.search(line)
    }


def shown(places: Iterable[tuple[str, int]], output: str) -> str:
    """Return where marks and errors differ, and what the checker said."""
    return f"{sorted(places)}\n{output}"


@pytest.mark.timeout(600)
def test_mypy_refuses_the_marked_lines_and_no_others() -> None:
    """Each ``assert_type`` holds, and each line that is marked as wrong has an error."""
    command = [sys.executable, "-m", "mypy", "--no-pretty", *map(str, EXAMPLES)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = {(Path(one["file"]).name, int(one["line"])) for one in MYPY_LINE.finditer(output)}
    assert found, output
    assert found == marked_lines(), shown(found ^ marked_lines(), output)


@pytest.mark.timeout(600)
def test_pyright_refuses_the_marked_lines_and_no_others() -> None:
    """The same with the other checker, which infers in another way."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *map(str, EXAMPLES)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    errors = [one for one in json.loads(output)["generalDiagnostics"] if one["severity"] == "error"]
    found = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors}
    assert found, output
    assert found == marked_lines(), shown(found ^ marked_lines(), output)
