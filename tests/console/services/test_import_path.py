"""What a command says of an agent, or of JSON, that somebody mistyped: what, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from seekpoint.console.services.arguments.import_path import load_agent
from seekpoint.console.services.calls.send_and_confirm import parse_json

AGENT = """
from seekpoint import agent

@agent("greet")
async def greet(process, name):
    return name

def plain(name):
    return name

number = 3
"""
FILES = {
    "import_path_agent": AGENT,
    "import_path_broken": "\nimport no_such_dependency\n",
    "import_path_syntax": "def (:\n",
    "import_path_raises": "x = 1\n1 / 0\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules, in which the command runs."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def refusal(call: Callable[[], object]) -> str:
    """Return what the command says."""
    with pytest.raises(typer.BadParameter) as caught:
        call()
    return caught.value.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("greetings", "'greetings' is not MODULE:FUNCTION, such as greetings:greetings"),
        ("shop/greetings.py", "'shop/greetings.py' is not MODULE:FUNCTION, such as shop.greetings:greetings"),
        ("a b", "'a b' is not MODULE:FUNCTION"),
        ("import_path_agent.py:greet", "it is a module, not a file; write import_path_agent"),
        ("import_path_agent:gret", "module 'import_path_agent' has no attribute 'gret'"),
        ("import_path_agent:plain", "is no agent but of type function: put @agent(NAME) above it"),
        ("import_path_agent:number", "is no agent but of type int: name a function with @agent(NAME) above it"),
        ("import_path_syntax:x", "SyntaxError: invalid syntax (import_path_syntax.py, line 1)"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_refused_with_what_to_write(name: str, message: str) -> None:
    """The file instead of the module, a name without its module, a function that is no agent."""
    assert message in refusal(lambda: load_agent(name))


def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for(folder: Path) -> None:
    """Most often the command was started in another folder."""
    said = refusal(lambda: load_agent("nowhere:greet"))
    assert said.endswith(f"there is no module nowhere in {folder} or on Python's path")


def test_the_line_at_which_a_module_fails_is_named(folder: Path) -> None:
    """A missing dependency is not taken for the module itself."""
    said = refusal(lambda: load_agent("import_path_broken:greet"))
    assert f"No module named 'no_such_dependency' (in {folder / 'import_path_broken.py'}:2)" in said
    said = refusal(lambda: load_agent("import_path_raises:greet"))
    assert f"ZeroDivisionError: division by zero (in {folder / 'import_path_raises.py'}:2)" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ada", """'Ada' is not JSON: .*; a text needs quotes of its own: '"Ada"'"""),
        ("where is it?", "a text needs quotes of its own"),
        ("{'a': 1}", r"is not JSON: .* \(character 2\)"),
        ('{"a": 1,}', "is not JSON"),
        ("", "'' is not JSON"),
        ("1e999", "'1e999' (is not JSON|cannot be used)"),
    ],
)
def test_what_is_not_json_is_refused_with_the_place(text: str, message: str) -> None:
    """A shell takes the quotes of a word."""
    with pytest.raises(typer.BadParameter, match=message):
        parse_json(text, "--input")
