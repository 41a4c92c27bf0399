"""How fast the command is there: what a path does not need is not imported."""

from __future__ import annotations

import json
import os
import signal
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


_INTERRUPTED = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "seekpoint.console.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from seekpoint.console.entry_point import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a program cannot send itself Ctrl-C there")
def test_ctrl_c_while_the_command_loads_ends_it_without_a_traceback() -> None:
    """Loading takes a fifth of a second, in which nothing has begun."""
    ran = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, "")


def test_a_command_that_has_loaded_is_interrupted_as_ever() -> None:
    """It closes what it has begun, and its exit code is 130."""
    script = (
        "import signal, sys; from seekpoint.console.entry_point import main; sys.argv[1:] = ['--version']; main(); "
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "True"


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
