"""How fast the command is there: what a path does not need is not imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("command", [["-m", "seekpoint.console", "--version"]])
def test_the_package_runs_as_a_module(command: list[str]) -> None:
    """``python -m seekpoint.console`` is ``seekpoint``."""
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("seekpoint ")


def test_shell_completion_completes() -> None:
    """What Typer brings works through our ``main`` too."""
    words = {"_SEEKPOINT_COMPLETE": "complete_bash", "COMP_WORDS": "seekpoint top", "COMP_CWORD": "1"}
    script = "import sys; from seekpoint.console.cli import main; sys.exit(main([]))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=words, check=False)
    assert ran.stdout.split() == ["topics"]
