"""Import every module of the project. A warning that one of them causes is an error."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["every_module"]

ROOTS = ("api", "schemas", "consumers", "producers", "adapters", "console", "compose")


def every_module(checkout: Path) -> Iterator[str]:
    """Yield the names of all modules, without those that are programs.

    >>> names = [*every_module(Path(__file__).parents[1])]
    >>> "seekpoint" in names, "seekpoint.schemas.folding.fold" in names, "seekpoint.console.__main__" in names
    (True, True, False)
    """
    for root in ROOTS:
        for file in sorted((checkout / root).rglob("*.py")):
            parts = file.relative_to(checkout / root).with_suffix("").parts
            if parts[-1] != "__main__":
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> int:
    """Import them, and print how many there are."""
    warnings.filterwarnings("error", module=r"seekpoint(\..*)?$")
    names = [*every_module(Path(__file__).parents[1])]
    for name in names:
        importlib.import_module(name)
    print(f"{len(names)} modules imported by Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
