"""The wheel, the sdist and an editable install, each in a new environment: what users import is there, and typed."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).resolve().parents[2]
KINDS = ["wheel", "sdist", "editable"]

USE = """
import asyncio, json
import seekpoint
from seekpoint import MemoryLog, Node, agent
from seekpoint.errors import Fenced
from seekpoint.schemas.errors import Fenced as same

@agent("case")
async def work(process, given):
    return await process.step("double", lambda: 2 * given)

async def main():
    async with Node.in_memory(MemoryLog()) as node:
        return await node.run(work, "case-17", 21)

missing = [name for name in seekpoint.__all__ if not hasattr(seekpoint, name)]
print(json.dumps([asyncio.run(main()), seekpoint.__version__, missing, Fenced is same, seekpoint.__file__]))
"""

TYPED = """
from seekpoint import Node, Projector, Worker, create_topics, errors
from seekpoint.errors import Fenced
from seekpoint.folds import UserFold
from seekpoint.producers import Worker as SameWorker
from seekpoint.staging import Plan
from seekpoint.testing import Crash


async def run(node: Node, worker: Worker, crash: Crash, plan: Plan, fold: UserFold) -> SameWorker:
    await node.recover(7)
    raise errors.Fenced() if isinstance(crash, Fenced) else worker
"""
"""Right but for three errors: of the argument 7, of a Fenced without a message, and of a Worker that is raised."""


@pytest.fixture(scope="module", params=KINDS)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Seekpoint, its extra ``kafka``, and two type checkers.

    ``tests/console/test_base_installation.py`` has what works without an extra.
    """
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    wanted = (
        ["--editable", f"{CHECKOUT}[kafka]"]
        if request.param == "editable"
        else [f"{_built(request.param, folder)}[kafka]"]
    )
    _run(python, "-m", "pip", "install", "--quiet", *wanted, "mypy", "pyright[nodejs]")
    return python


def _built(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder / "dist")]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=240)
    [built] = (folder / "dist").iterdir()
    return built


def _run(python: Path, *arguments: str, cwd: Path | None = None) -> str:
    command = [str(python), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=cwd or python.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_program_runs_with_the_front_door_only(python: Path) -> None:
    """Each name is there, and an agent runs; nothing is read from the checkout unless the install is editable."""
    result, version, missing, is_same, place = json.loads(_run(python, "-c", USE))
    assert (result, missing, is_same) == (42, [], True)
    assert version in _run(python, "-m", "pip", "show", "seekpoint").splitlines()[1]
    assert Path(place).is_relative_to(python.parents[1]) != Path(place).is_relative_to(CHECKOUT)


def test_the_command_is_there_under_both_names(python: Path) -> None:
    """``seekpoint`` and ``python -m seekpoint`` say the same."""
    assert _run(python.parent / "seekpoint", "--version") == _run(python, "-m", "seekpoint", "--version")


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_see_the_types(python: Path, checker: str, tmp_path: Path) -> None:
    """A right use passes, and a wrong one is an error in the user's line: the names are not ``Any``."""
    file = tmp_path / "use.py"
    file.write_text(TYPED)
    assert _CHECKERS[checker](python, file) == [11, 12, 12]


def _mypy(python: Path, file: Path) -> list[int]:
    command = [str(python), "-m", "mypy", "--strict", "--config-file", "", "--output", "json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=file.parent)
    assert done.returncode == 1, done.stdout + done.stderr
    return [json.loads(line)["line"] for line in done.stdout.splitlines()]


def _pyright(python: Path, file: Path) -> list[int]:
    command = [str(python), "-m", "pyright", "--pythonpath", str(python), "--outputjson", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=file.parent)
    assert done.returncode == 1, done.stdout + done.stderr
    return [one["range"]["start"]["line"] + 1 for one in json.loads(done.stdout)["generalDiagnostics"]]


_CHECKERS: dict[str, Callable[[Path, Path], list[int]]] = {"mypy": _mypy, "pyright": _pyright}
