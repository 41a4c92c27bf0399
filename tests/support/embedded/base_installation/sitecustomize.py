"""Let a program find only the packages of the base installation. On ``PYTHONPATH``, Python imports it at its start."""

from __future__ import annotations

import os
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

MISSING = os.environ.get("PACKAGES_OF_EXTRAS", "").split(",")
_find = PathFinder.find_spec


def find_spec(fullname: str, *more: Any, **options: Any) -> ModuleSpec | None:
    """Find no package of an extra."""
    return None if fullname.partition(".")[0] in MISSING else _find(fullname, *more, **options)


if any(MISSING):
    PathFinder.find_spec = find_spec  # type: ignore[method-assign]
