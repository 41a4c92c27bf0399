"""The wheel holds the front door, all six roots, their type markers and the schemas, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
ROOTS = ("schemas", "consumers", "producers", "adapters", "console", "compose")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=240)
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("seekpoint-*.whl")
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("root", ROOTS)
def test_each_root_is_complete_and_typed(members: set[str], root: str) -> None:
    """Every file of the root that is not a leftover of the interpreter is in the wheel, py.typed among them."""
    files = (
        path
        for path in (CHECKOUT / root / "seekpoint").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    expected = {path.relative_to(CHECKOUT / root).as_posix() for path in files} - {"seekpoint/__init__.pyi"}
    assert f"seekpoint/{root}/py.typed" in expected
    assert expected - members == set()


def test_the_avro_schemas_are_shipped(members: set[str]) -> None:
    """A reader in another language finds them in the wheel."""
    assert [name for name in members if name.startswith("seekpoint/schemas/") and name.endswith(".avsc")]


def test_the_front_door_is_in_the_wheel(members: set[str]) -> None:
    """With its type marker, and without the files that join the roots of a checkout for Pyright."""
    front = {path.relative_to(CHECKOUT / "api").as_posix() for path in (CHECKOUT / "api" / "seekpoint").glob("*.*")}
    assert {"seekpoint/__init__.py", "seekpoint/__main__.py", "seekpoint/py.typed"} <= front
    assert {name for name in members if name.count("/") == 1 and name.startswith("seekpoint/")} == front


def test_nothing_lands_outside_the_package(members: set[str]) -> None:
    """Another top-level name could hide a module of the user."""
    outside = {name.partition("/")[0] for name in members} - {"seekpoint"}
    assert [name.endswith(".dist-info") for name in outside] == [True]


def test_the_wheel_contains_the_licence(members: set[str]) -> None:
    """Whole, in the wheel's own folder."""
    assert [name for name in members if name.endswith(".dist-info/licenses/LICENSE")]


def test_the_image_is_built_from_every_folder_of_the_wheel() -> None:
    """What the ignore file leaves out would be missing in a container."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    kept = (CHECKOUT / "compose" / "Dockerfile.dockerignore").read_text().split()
    assert {place.partition("/")[0] for place in settings["packages"]} <= {line.removeprefix("!") for line in kept}
