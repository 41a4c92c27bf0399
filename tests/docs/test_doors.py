"""The doors of the roots: what they offer is there, loaded or not."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOTS = ["schemas", "consumers", "producers", "compose"]


@pytest.mark.parametrize("root", ROOTS)
def test_each_package_lists_its_lazy_names(root: str) -> None:
    """Completion in a shell and ``help`` ask for its names; each of them can be had."""
    script = f"import seekpoint.{root} as door; print(sorted(set(door.__all__) - set(dir(door))))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    door = importlib.import_module(f"seekpoint.{root}")
    assert all(hasattr(door, name) for name in door.__all__)
    assert not hasattr(door, "nobody")


@pytest.mark.parametrize("root", ["schemas", "consumers", "producers"])
def test_type_checkers_see_late_names_where_they_are_loaded(root: str) -> None:
    """``__init__.py`` has each late name twice: as an import for type checkers, and with the same module as a text."""
    door = importlib.import_module(f"seekpoint.{root}")
    assert door.__file__ is not None
    [block] = [one for one in ast.parse(Path(door.__file__).read_text()).body if isinstance(one, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    imports = [one for one in block.body if isinstance(one, ast.ImportFrom)]
    checked = {alias.name: str(one.module) for one in imports for alias in one.names}
    [homes] = [ast.literal_eval(one) for one in ast.walk(block) if isinstance(one, ast.Dict)]
    modules = {name for name, home in homes.items() if home == f"{door.__name__}.{name}"}
    assert {name: door.__name__ if name in modules else home for name, home in homes.items()} == checked
    assert checked.keys() <= set(door.__all__)
