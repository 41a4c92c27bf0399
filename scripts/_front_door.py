"""A contract of import-linter: the front door imports the roots, and no root imports the front door.

import-linter loads this module before it looks for packages. The ``import seekpoint`` here shows it all roots.
"""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

import seekpoint

__all__ = ["FrontDoor"]

_FRONT = (seekpoint.__name__, *(f"seekpoint.{name}" for name in ("errors", "folds", "staging", "testing")))
_ALLOWED = {"seekpoint.__main__", "seekpoint.console.cli"}
"""These read the version, or are the front door themselves."""


class FrontDoor(Contract):
    """No module of a root imports the front door: it loads the roots, so that would be a circle.

    Adapters do: the front door does not load them.
    """

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Name each module that breaks the contract."""
        importers = {one for front in _FRONT for one in graph.find_modules_that_directly_import(front)}
        found = sorted(one for one in importers - {*_FRONT} - _ALLOWED if not one.startswith("seekpoint.adapters."))
        return ContractCheck(kept=not found, metadata={"importers": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each module."""
        for name in check.metadata["importers"]:
            output.print_error(f"{name} imports the front door: import from the module that has the name")
