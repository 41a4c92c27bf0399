"""docs/cli.md and the commands say the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from seekpoint.console.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
ROOT: Any = typer.main.get_command(app)


def commands(of: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command there is, by the words that call it."""
    for name, command in of.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        if getattr(command, "invoke_without_command", True):
            yield (*path, name)


def examples() -> list[str]:
    """The commands that the page shows, without what they print."""
    return re.findall(r"^\$ (seekpoint .+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_each_command_has_an_example(path: tuple[str, ...]) -> None:
    """One that can be typed as it stands."""
    assert any(shlex.split(example)[1 : 1 + len(path)] == list(path) for example in examples())


@pytest.mark.parametrize("example", examples())
def test_each_example_is_accepted(example: str) -> None:
    """Its command exists and takes these options and arguments."""
    command, words = ROOT, shlex.split(example)[1:]
    if words[0].endswith("-completion"):  # Typer's own, which would act at once
        assert words[0] in {option for each in ROOT.params for option in each.opts}
        return
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("seekpoint", list(words))


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_each_option_is_named(path: tuple[str, ...]) -> None:
    """On the page, somewhere: nothing is a secret of ``--help``."""
    command = ROOT
    for word in path:
        command = command.commands[word]
    options = {option for each in command.params for option in each.opts if option.startswith("--")}
    assert not {option for option in options - {"--help"} if option not in PAGE}


def test_exit_codes_are_listed() -> None:
    """All that the errors have."""
    for code in ("| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |", "| 130, 143 |", "| 141 |"):
        assert code in PAGE
