"""Read processes for listings: from the view's summaries and indexes, else from the log, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.console.render.output import say
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories import process_scan
from seekpoint.console.services.histories.view_pages import (
    ViewGone,
    by_id,
    load_states,
    newest,
    offsets_behind,
    view_of,
)

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.schemas.state.process_state import State

_LOAD_SIZE = 100


class Listed(NamedTuple):
    """A process in a listing."""

    summary: Summary
    state: State | None
    """Its state, if the log was read and every process is listed."""
    behind: int
    """The number of offsets of its partition that the view has not applied."""


def listed(
    target: CommandTarget, query: ProcessQuery, *, from_log: bool = False, tell: Callable[[str], object] = say
) -> Iterator[Listed]:
    """Yield the processes that ``query`` wants, in its order. ``tell`` gets the reason why the log is read.

    All processes by id are yielded one by one: from the view in the order of ids, from the log by partition and then by
    id. If the view becomes unusable meanwhile, the processes after the last id come from the log.
    """
    last, count = "", 0
    try:
        if from_log:
            raise ViewGone("--from-log")
        behind = offsets_behind(target)
        for one in _from_view(target, query):
            last, count = one.process_id, count + 1
            yield Listed(one, None, behind[one.partition])
    except ViewGone as gone:
        left = query if query.limit is None else replace(query, limit=query.limit - count)
        yield from _from_log(target, left, gone.why, last, tell)


def open_states(
    target: CommandTarget,
    process_id: str | None,
    wants: Callable[[Summary], bool],
    *,
    tell: Callable[[str], object] = say,
) -> Iterator[tuple[str, State]]:
    """Yield the state of one process, or without an id of each unfinished process whose summary ``wants`` accepts.

    From the view it reads the summaries of the unfinished processes and the states of the wanted ones. Without a usable
    view it reads the whole log, and ``tell`` gets the reason.
    """
    if process_id is not None:
        yield process_id, target.recoverer.recover(process_id).state
        return
    last = ""
    try:
        offsets_behind(target)
        found = filter(wants, by_id(view_of(target), open_only=True))
        while chunk := list(islice(found, _LOAD_SIZE)):
            states = load_states(view_of(target), chunk)
            for one in chunk:
                if one.process_id in states:
                    yield one.process_id, states[one.process_id]
                last = one.process_id
    except ViewGone as gone:
        for name, _, state in _scanned(target, gone.why, last, tell):
            yield name, state


# --- from the log -----------------------------------------------------------------------------------------------------
def _from_log(
    target: CommandTarget, query: ProcessQuery, why: str, after: str, tell: Callable[[str], object]
) -> Iterator[Listed]:
    from seekpoint.consumers.view.process_summary import summary_of

    found = _scanned(target, why, after, tell)
    if query.everything:
        for name, partition, state in found:
            summary = summary_of(partition, name.encode(), state)
            if query.wants(summary):
                yield Listed(summary, state, 0)
        return
    for one in query.ordered(summary_of(partition, name.encode(), state) for name, partition, state in found):
        yield Listed(one, None, 0)


def _scanned(
    target: CommandTarget, why: str, after: str, tell: Callable[[str], object]
) -> Iterator[tuple[str, int, State]]:
    """Read the whole log, and yield the processes whose id sorts after ``after``."""
    tell(f"reading from the log: {why}")
    for name, partition, state in process_scan.scan_processes(target):
        if name > after:
            yield name, partition, state


# --- from the view ---------------------------------------------------------------------------------------------------
def _from_view(target: CommandTarget, query: ProcessQuery) -> Iterable[Summary]:
    view = view_of(target)
    if query.newest_first:
        return query.ordered(newest(view, query))
    found = by_id(view, open_only=query.open_only, after=query.after if query.sort == "id" else None)
    if query.sort == "id":
        return islice(filter(query.wants, found), query.limit)
    return query.ordered(found)
