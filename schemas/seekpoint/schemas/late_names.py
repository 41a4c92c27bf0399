"""Load public names of a package at first use: a program that does not use them starts faster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` (PEP 562) of a package.

    ``homes`` has the module of each name that is loaded at first use. A name that is a module is its own home.

    >>> get, _ = late_names("seekpoint.schemas", {"MemoryLog": "seekpoint.schemas.log.memory_log"})
    >>> get("MemoryLog").__name__
    'MemoryLog'
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = import_module(home)
        found = module if home == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)  # the next use does not come here
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
