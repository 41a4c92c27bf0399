"""``seekpoint lineage``: show where a process comes from, and what comes from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seekpoint.console.render.output import clean, emit, emit_json
from seekpoint.console.services.arguments.options import AsJson, ProcessId
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.process_scan import without_view

if TYPE_CHECKING:
    from seekpoint.producers.history.lineages import ProcessLineage


def lineage(target: CommandTarget, process_id: ProcessId, json: AsJson = False) -> None:
    """Show the parents, the forks, the reruns and the spawned children of a process, and theirs.

    As of now, from the view; without one, from checkpoints or a scan of the log.
    """
    from msgspec import to_builtins

    from seekpoint.producers.history.lineages import find_lineage

    found = find_lineage(target.recoverer, process_id, without_view())
    if json:
        emit_json(to_builtins(found))
        return
    for line in _lines(found):
        emit(clean(line))


def _lines(found: ProcessLineage) -> Iterator[str]:
    """Yield the lines of a tree, the farthest parent first."""
    for depth, one in enumerate(found.parents):
        yield f"{'  ' * depth}{one.process_id} ({one.status or 'not in the journal'})"
    yield f"{'  ' * len(found.parents)}{found.process_id} ({found.status})  <"
    for below in found.descendants:
        how = f"fork at seq {below.seq}" if below.relation == "fork" else below.relation
        yield f"{'  ' * (len(found.parents) + below.depth)}{below.process_id} ({how}, {below.status})"
