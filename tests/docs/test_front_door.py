"""The front door: one import path for every public name, loaded at first use."""

from __future__ import annotations

import ast
import importlib
import re
from importlib.metadata import version
from pathlib import Path

import pytest

import seekpoint
from pages import PAGES, page_name

CHECKOUT = Path(__file__).resolve().parents[2]
FRONT = CHECKOUT / "api" / "seekpoint"
ROOTS = ("schemas", "consumers", "producers", "adapters", "console", "compose")


@pytest.mark.parametrize("root", ["producers", "consumers"])
def test_the_front_door_has_every_public_name_of_the_root(root: str) -> None:
    """Nobody has to know the roots; a name is the same object here and there."""
    package = importlib.import_module(f"seekpoint.{root}")
    modules = {"staging", "testing"}
    differ = [
        name
        for name in package.__all__
        if name not in modules and getattr(seekpoint, name, None) is not getattr(package, name)
    ]
    assert differ == []


@pytest.mark.parametrize("name", seekpoint.__all__)
def test_each_name_of_the_front_door_is_there(name: str) -> None:
    """Listed, and loaded at first use: by a star import too."""
    assert name in dir(seekpoint)
    assert getattr(seekpoint, name) is not None


def test_an_unknown_name_is_refused_as_by_any_package() -> None:
    """``hasattr`` and the import of a module ask this way."""
    with pytest.raises(AttributeError, match="module 'seekpoint' has no attribute 'nobody'"):
        seekpoint.nobody  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nobody' from 'seekpoint'"):
        exec("from seekpoint import nobody")


def test_type_checkers_see_the_names_where_they_are_loaded() -> None:
    """``__init__.py`` has each name as an import for type checkers, and takes it from the same package."""
    body = ast.parse((FRONT / "__init__.py").read_text()).body
    [block] = [one for one in body if isinstance(one, ast.If)]
    imports = [one for one in block.body if isinstance(one, ast.ImportFrom)]
    checked = {alias.name: str(one.module) for one in imports for alias in one.names}
    homes = {name: home.removesuffix(f".{name}") for name, home in seekpoint._HOMES.items()}
    assert {name: homes.get(name, "seekpoint.producers") for name in checked} == checked
    assert sorted(checked) == sorted({*seekpoint.__all__} - {"__version__"})
    assert homes.keys() <= checked.keys()


@pytest.mark.parametrize("name", ["errors", "folds", "staging", "testing"])
def test_a_module_of_the_front_door_has_the_names_of_another_one(name: str) -> None:
    """``from seekpoint.errors import Fenced`` gives the class that ``seekpoint.schemas.errors`` has."""
    module = importlib.import_module(f"seekpoint.{name}")
    home = {"staging": "consumers", "testing": "producers"}.get(name, "schemas")
    source = importlib.import_module(f"seekpoint.{home}.{name}")
    assert module.__all__ == source.__all__
    assert all(getattr(module, one) is getattr(source, one) for one in source.__all__)


def test_the_roots_of_a_checkout_are_one_package() -> None:
    """Each of them is on the package's path, once."""
    expected = sorted(str(CHECKOUT / root / "seekpoint") for root in ("api", *ROOTS))
    assert sorted(set(seekpoint.__path__) & set(expected)) == expected
    assert len(seekpoint.__path__) == len(set(seekpoint.__path__))


def test_the_version_is_that_of_the_installed_package() -> None:
    """Builds read it from ``seekpoint.__version__``."""
    assert seekpoint.__version__ == version("seekpoint")


@pytest.mark.parametrize("page", [*PAGES, *sorted((CHECKOUT / "examples").rglob("*.py"))], ids=page_name)
def test_pages_and_examples_import_from_the_front_door(page: Path) -> None:
    """A reader learns one import path. Only names that it does not have come from a root."""
    doors = ("seekpoint.producers", "seekpoint.consumers", "seekpoint.schemas", "seekpoint.compose")
    modules = ("seekpoint.schemas.errors", "seekpoint.schemas.folds", "seekpoint.consumers.staging")
    imports = re.findall(r"from (seekpoint[\w.]*) import (\([^)]*\)|.*)", page.read_text())
    found = [
        (home, name)
        for home, names in imports
        for name in re.findall(r"\w+", names)
        if home in (*modules, "seekpoint.producers.testing") or (home in doors and name in seekpoint.__all__)
    ]
    assert found == []
