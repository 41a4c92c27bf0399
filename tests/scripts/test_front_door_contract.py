"""The contract of import-linter that keeps the front door above the roots."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from _front_door import FrontDoor


@pytest.mark.parametrize(
    ("importer", "imported", "is_kept"),
    [
        ("seekpoint", "seekpoint.producers", True),
        ("seekpoint.errors", "seekpoint.schemas.errors", True),
        ("seekpoint.console.cli", "seekpoint", True),
        ("seekpoint.producers.node", "seekpoint", False),
        ("seekpoint.schemas.folds", "seekpoint.errors", False),
    ],
)
def test_a_root_that_imports_the_front_door_breaks_the_contract(importer: str, imported: str, is_kept: bool) -> None:
    """The front door loads the roots; a root that imports it would be a circle."""
    graph = ImportGraph()
    for name in ("seekpoint", "seekpoint.errors", "seekpoint.folds", "seekpoint.staging", "seekpoint.testing"):
        graph.add_module(name)
    graph.add_import(importer=importer, imported=imported)
    contract = FrontDoor("no root imports the front door", {}, {})
    check = contract.check(graph, verbose=False)
    assert check.kept is is_kept
    assert check.metadata["importers"] == ([] if is_kept else [importer])
