"""Every command that an error or a page advises quotes what it names: people paste it into a shell."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seekpoint.schemas.values.process_ids import pasted

ROOT = Path(__file__).parents[2]
ROOTS = ("schemas", "consumers", "producers", "adapters", "console", "compose")
_COMMAND = re.compile(r"seekpoint [a-z][^;:,()\n]*$")
"""A command that goes on up to what is filled in."""
HARMLESS = frozenset({"ahead", "place", "facts['seq'] - 1"})
"""Options and numbers of our own."""


def unquoted(source: str) -> list[tuple[int, str]]:
    """Return line and text of each expression that stands unquoted in a command for a shell."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            text = ast.unparse(part.value)
            if _COMMAND.search(before) and not text.startswith("pasted(") and text not in HARMLESS:
                found.append((part.lineno, text))
            before += "X"
    return found


def test_no_hint_bypasses_the_quoting() -> None:
    """An id such as ``$(reboot)`` in a hint would run when the hint is pasted."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for root in ROOTS
        for path in sorted((ROOT / root).rglob("*.py"))
        for line, text in unquoted(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["$(touch owned)", "a b", "a;b", "it's", "-rf", "-r f", "--help", "`x`", "$HOME", "plain-1"]
)
def test_what_is_pasted_is_one_argument(text: str) -> None:
    """A shell hands the text over as it is, never as an option."""
    script = f"{sys.executable} -c 'import sys; print(sys.argv[1:])' {pasted(text)}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == (["--", text] if text.startswith("-") else [text])
