"""The doors of the roots: what they offer is there, loaded or not."""

from __future__ import annotations

import importlib
import subprocess
import sys

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
