"""What the pages show runs, and prints what they say."""

from __future__ import annotations

import ast
import asyncio
import builtins
import code
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from pages import CONTINUED, PAGES, ROOT, Block, blocks
from seekpoint.compose import LocalCluster
from seekpoint.schemas import Settings
from seekpoint.schemas.folds import only

PYTHON = [block for page in PAGES for block in blocks(page, "python")]
ON_KAFKA = [block for block in PYTHON if block.needs_kafka]
IN_MEMORY = [block for block in PYTHON if not block.needs_kafka and block.page != CONTINUED]
START = ROOT / "docs" / "start.md"


class Pasted(code.InteractiveConsole):
    """What ``python -m asyncio`` makes of lines that somebody pastes: one statement at a time, ended by an empty line.

    Python 3.11 takes an indented block for ended at its first empty line, and wants one behind it.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__({"__name__": "__main__", "__builtins__": builtins})
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._runner = runner
        self.failure: BaseException | None = None

    def paste(self, block: Block) -> None:
        """Paste the block, and press return. Raises what a statement raises, a SyntaxError of the console too."""
        for line in [*block.text.splitlines(), ""]:
            self.push(line)
            if self.failure is not None:
                raise self.failure

    def runcode(self, code: Any) -> None:
        made = FunctionType(code, self.locals)

        async def called() -> None:
            found = made()
            if inspect.iscoroutine(found):
                await found

        self._runner.run(called())

    def showsyntaxerror(self, filename: str | None = None, **_: Any) -> None:
        self.failure = sys.exc_info()[1]


@pytest.mark.parametrize("block", IN_MEMORY, ids=lambda block: block.name)
def test_an_example_runs_alone_in_a_console(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A reader who pastes any one block into ``python -m asyncio`` sees what stands behind its prints."""
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner() as runner, only():  # what a page registers is gone with it
        console = Pasted(runner)
        console.paste(block)
        assert capsys.readouterr().out.splitlines() == block.expected
        for node in [value for value in console.locals.values() if type(value).__name__ == "Node"]:
            runner.run(node.close())


def test_the_tutorial_runs_from_top_to_bottom(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of its blocks, pasted one after the other into one console: each prints what stands behind its prints."""
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    tutorial = blocks(CONTINUED, "python")
    assert len(tutorial) > 5
    with asyncio.Runner() as runner, only():
        console = Pasted(runner)
        for block in tutorial:
            console.paste(block)
            assert capsys.readouterr().out.splitlines() == block.expected, block.name


@pytest.mark.cluster
@pytest.mark.parametrize("block", ON_KAFKA, ids=lambda block: block.name)
def test_an_example_on_kafka_runs(
    block: Block,
    cluster: LocalCluster,
    journal: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By itself, on a cluster it starts or on the one that the environment points at."""
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", cluster.redis_url)
    monkeypatch.setenv("SEEKPOINT_JOURNAL", journal.journal)
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    with asyncio.Runner() as runner:
        Pasted(runner).paste(block)
    assert capsys.readouterr().out.splitlines() == block.expected


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_examples_import_public_names_only(block: Block) -> None:
    """From the front door or one of its modules, from the door of a root, or from a module that a root's door names."""
    for node in ast.walk(compile(block.text, block.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seekpoint"):
            door, *inner = (node.module or "").removeprefix("seekpoint.").split(".")
            package = importlib.import_module("seekpoint" if door == "seekpoint" else f"seekpoint.{door}")
            assert door == "adapters" or set(inner) <= set(package.__all__), node.module
            public = importlib.import_module(node.module or "").__all__
            assert {alias.name for alias in node.names} <= set(public), f"{block.name}: {node.module}"


@pytest.mark.cluster
def test_a_copy_on_kafka_continues_the_run_of_a_file(settings: Settings, tmp_path: Path) -> None:
    """The copy commands of the start page, with a run that was killed: it goes on from the journal on Kafka."""
    [agent] = [block for block in blocks(START, "python") if "async def greetings" in block.text]
    [lines] = [block for block in blocks(START, "console") if "seekpoint copy" in block.text]
    (tmp_path / "greetings.py").write_text(agent.text.replace("seconds=30", "seconds=3"))
    commands = [line.removeprefix("$ ") for line in lines.text.splitlines()]
    assert [command.count(" runs") for command in commands] == [1, 1, 1]
    begin = "seekpoint run visit-1 --agent greetings:greetings --input '\"Ada\"' --journal-url sqlite:///runs.db"
    killed = [f"{begin} &", "until cat runs.db* 2>/dev/null | grep -q sleep:1; do sleep 0.1; done; kill -9 $!"]
    copied = [command.replace(" runs", f" {settings.journal}") for command in commands]
    steps = f"seekpoint steps visit-1 --journal {settings.journal}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment["SEEKPOINT_BOOTSTRAP_SERVERS"] = settings.bootstrap_servers
    script = "\n".join(["set -e", *killed, *copied, steps])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"goodbye Ada"' in done.stdout.splitlines()
    assert [line.split()[3] for line in done.stdout.splitlines() if line.startswith("hello:1")] == ["1"]
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("visit-1")] == ["greetings"]


def test_no_example_is_left_out() -> None:
    """An example that nobody runs proves nothing: the start page has some of either kind."""
    start = [block for block in PYTHON if block.page == START]
    assert {block.needs_kafka for block in start} == {True, False}
    assert sum(len(block.expected) for block in start) >= 10
    assert [block.expected for block in PYTHON if block.page == ROOT / "README.md"] != []


def test_the_kill_example_kills_a_run_and_another_run_resumes_it(tmp_path: Path) -> None:
    """The lines of the start page in a shell: the first run dies in its wait, the second one ends with the result."""
    [agent] = [block for block in blocks(START, "python") if "async def greetings" in block.text]
    [lines] = [block for block in blocks(START, "console") if "kill -9" in block.text]
    (tmp_path / "greetings.py").write_text(agent.text.replace("seconds=30", "seconds=8"))
    script = "\n".join(line.removeprefix("$ ") for line in lines.text.splitlines())
    assert "sleep 5" in script
    waits = "until seekpoint steps visit-1 2>/dev/null | grep -q sleep:1; do sleep 0.1; done"
    script = script.replace("sleep 5", waits)  # a slow machine has not begun the run after any fixed time
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    result, _, *calls = done.stdout.splitlines()
    assert result == '"goodbye Ada"'
    assert [call.split()[:3] for call in calls] == [
        ["hello:1", "step", "succeeded"],
        ["sleep:1", "timer", "succeeded"],
        ["goodbye:1", "step", "succeeded"],
    ]
    assert calls[0].split()[3] == "1"
    environment["SEEKPOINT_JOURNAL_URL"] = "sqlite:///runs.db"
    asked = ["seekpoint", "state", "visit-1", "--json"]
    states = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert json.loads(states.stdout)["epoch"] == 2  # the killed run was the owner before
