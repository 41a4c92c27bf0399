"""``seekpoint lineage``: show where a process comes from, and what comes from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import clean, emit, emit_json
from seekpoint.console.services.options import AsJson, ProcessId
from seekpoint.console.services.process_query import ProcessQuery
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary

__all__ = ["kin_of", "lineage"]


def lineage(target: CommandTarget, process_id: ProcessId, json: AsJson = False) -> None:
    """Show the parents, the forks and the spawned children of a process, and theirs.

    From the view; without one, from a scan of the log.
    """
    from seekpoint.console.render.listing import listed
    from seekpoint.schemas.errors import UnknownProcess

    summaries = {one.process_id: one for one, _, _ in listed(target, ProcessQuery(), from_log=False)}
    if process_id not in summaries:
        raise UnknownProcess("no such process", process_id=process_id)
    parents, descendants = kin_of(process_id, summaries.values())
    if json:
        emit_json({"process_id": process_id, "parents": parents, "descendants": descendants})
        return
    for depth, one in enumerate([*parents, {"process_id": process_id, "relation": None}]):
        emit(clean("  " * depth + _line(one, summaries, is_asked=one["process_id"] == process_id)))
    for one in descendants:
        emit(clean("  " * (len(parents) + one["depth"]) + _line(one, summaries)))


def kin_of(process_id: str, summaries: Iterable[Summary]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parents, the farthest first, and the descendants in the order of a tree. Pure.

    ``relation`` of a parent says how the next process came from it: ``fork``, ``rerun`` or ``child``.
    """
    known = {one.process_id: one for one in summaries}
    forks: dict[str, list[tuple[str, str]]] = {}
    for one in known.values():
        origin, relation = _origin(one)
        if origin is not None:
            forks.setdefault(origin, []).append((one.process_id, relation))
    parents, at, seen = list[dict[str, Any]](), known.get(process_id), {process_id}
    while at is not None:
        origin, relation = _origin(at)
        if origin is None or origin in seen:
            break
        seen.add(origin)
        parents.insert(0, {"process_id": origin, "relation": relation, "seq": at.parent_seq})
        at = known.get(origin)
    return parents, [*_below(process_id, forks, known, 1, {process_id})]


def _below(
    process_id: str, forks: dict[str, list[tuple[str, str]]], known: dict[str, Summary], depth: int, seen: set[str]
) -> Iterator[dict[str, Any]]:
    for name, relation in sorted(forks.get(process_id, ())):
        if name not in seen:
            seen.add(name)
            yield {
                "process_id": name, "relation": relation, "of": process_id, "seq": known[name].parent_seq,
                "depth": depth,
            }  # fmt: skip
            yield from _below(name, forks, known, depth + 1, seen)


def _origin(one: Summary) -> tuple[str | None, str]:
    if one.rerun_of is not None:
        return one.rerun_of, "rerun"
    return (one.parent_id, "fork") if one.parent_id is not None else (one.spawned_by, "child")


def _line(one: dict[str, Any], summaries: dict[str, Summary], *, is_asked: bool = False) -> str:
    name = one["process_id"]
    status = summaries[name].status if name in summaries else "not in the journal"
    how = ""
    if "of" in one:
        how = f"fork at seq {one['seq']}, " if one["relation"] == "fork" else f"{one['relation']}, "
    return f"{name} ({how}{status}){'  <' if is_asked else ''}"
