"""How fast the command is there: what a path does not need is not imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import seekpoint

HEAVY = ["confluent_kafka", "fastavro", "redis", "asyncio", "seekpoint.schemas", "seekpoint.compose", "rich.console"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["state", "--help"], ["nonsense"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Neither Kafka nor the schemas nor Rich: together they are two thirds of a second."""
    script = (
        "import json, sys; from seekpoint.console.cli import main; main(sys.argv[1:]); "
        f"print(json.dumps(sorted(set({HEAVY}) & set(sys.modules))), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(ran.stderr.splitlines()[-1]) == []


@pytest.mark.parametrize("module", ["seekpoint", "seekpoint.console"])
def test_the_package_runs_as_a_module(module: str) -> None:
    """``python -m seekpoint`` is ``seekpoint``."""
    ran = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"seekpoint {seekpoint.__version__}\n"


def test_shell_completion_completes() -> None:
    """What Typer brings works through our ``main`` too."""
    words = {"_SEEKPOINT_COMPLETE": "complete_bash", "COMP_WORDS": "seekpoint top", "COMP_CWORD": "1"}
    script = "import sys; from seekpoint.console.cli import main; sys.exit(main([]))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=words, check=False)
    assert ran.stdout.split() == ["top", "topics"]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell_name: str) -> None:
    """It calls our command by its name. Which shell is taken from the parent process, but not here."""
    words = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "seekpoint.console", "--show-completion", shell_name]
    ran = subprocess.run(command, capture_output=True, text=True, env=words, check=True)
    assert "_SEEKPOINT_COMPLETE=complete_" + shell_name in ran.stdout
    assert ran.stderr == ""
