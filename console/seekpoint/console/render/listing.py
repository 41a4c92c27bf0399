"""Read processes for listings: from the view's summaries and indexes, else from the log, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.console.render.output import say
from seekpoint.console.services import process_scan
from seekpoint.console.services.process_query import ProcessQuery
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.consumers.view.view_store import Page, ViewBrowser
    from seekpoint.schemas.state.process_state import State

__all__ = ["Listed", "ViewGone", "listed", "open_states"]

_PAGE_SIZE = 500
_LOAD_SIZE = 100


class Listed(NamedTuple):
    """A process in a listing."""

    summary: Summary
    state: State | None
    """Its state, if the log was read and every process is listed."""
    behind: int
    """The number of offsets of its partition that the view has not applied."""


class ViewGone(Exception):
    """A partition has no usable view, or its view became unusable. ``why`` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def listed(target: CommandTarget, query: ProcessQuery, *, from_log: bool = False) -> Iterator[Listed]:
    """Yield the processes that ``query`` wants, in its order.

    All processes by id are yielded one by one: from the view in the order of ids, from the log by partition and then by
    id. If the view becomes unusable meanwhile, the processes after the last id come from the log.
    """
    last, count = "", 0
    try:
        if from_log:
            raise ViewGone("--from-log")
        behind = _behind(target)
        for one in _from_view(target, query):
            last, count = one.process_id, count + 1
            yield Listed(one, None, behind[one.partition])
    except ViewGone as gone:
        left = query if query.limit is None else replace(query, limit=query.limit - count)
        yield from _from_log(target, left, gone.why, last)


def open_states(
    target: CommandTarget, process_id: str | None, wants: Callable[[Summary], bool]
) -> Iterator[tuple[str, State]]:
    """Yield the state of one process, or without an id of each unfinished process whose summary ``wants`` accepts.

    From the view it reads the summaries of the unfinished processes and the states of the wanted ones. Without a usable
    view it reads the whole log.
    """
    if process_id is not None:
        yield process_id, target.recoverer.recover(process_id).state
        return
    last = ""
    try:
        _behind(target)
        found = filter(wants, _by_id(_view(target), open_only=True))
        while chunk := list(islice(found, _LOAD_SIZE)):
            states = _load(_view(target), chunk)
            for one in chunk:
                if one.process_id in states:
                    yield one.process_id, states[one.process_id]
                last = one.process_id
    except ViewGone as gone:
        for name, _, state in _scanned(target, gone.why, last):
            yield name, state


# --- from the log -----------------------------------------------------------------------------------------------------
def _from_log(target: CommandTarget, query: ProcessQuery, why: str, after: str) -> Iterator[Listed]:
    from seekpoint.consumers.view.process_summary import summary_of

    found = _scanned(target, why, after)
    if query == ProcessQuery():
        for name, partition, state in found:
            yield Listed(summary_of(partition, name.encode(), state), state, 0)
        return
    for one in query.ordered(summary_of(partition, name.encode(), state) for name, partition, state in found):
        yield Listed(one, None, 0)


def _scanned(target: CommandTarget, why: str, after: str) -> Iterator[tuple[str, int, State]]:
    """Read the whole log, and yield the processes whose id sorts after ``after``."""
    say(f"reading from the log: {why}")
    for name, partition, state in process_scan.scan_processes(target):
        if name > after:
            yield name, partition, state


# --- from the view ----------------------------------------------------------------------------------------------------
def _view(target: CommandTarget) -> ViewBrowser:
    if target.view is None:
        raise ViewGone("the settings name no Redis")
    return target.view


def _from_view(target: CommandTarget, query: ProcessQuery) -> Iterable[Summary]:
    view = _view(target)
    if query.newest_first:
        return query.ordered(_newest(view, query))
    found = _by_id(view, open_only=query.open_only)
    if query.sort == "id":
        return islice(filter(query.wants, found), query.limit)
    return query.ordered(found)


def _by_id(view: ViewBrowser, *, open_only: bool) -> Iterator[Summary]:
    """Yield all processes, or the unfinished ones, by id, with a page of each partition in memory."""
    streams = [_pages_by_id(view, partition, open_only) for partition in range(view.partitions())]
    return merge(*streams, key=lambda one: one.process_id)  # by code points, which is the order by UTF-8 bytes


def _pages_by_id(view: ViewBrowser, partition: int, open_only: bool) -> Iterator[Summary]:
    after = b""
    while True:
        with _gone():
            page = _valid(view.page(partition, after, b"", _PAGE_SIZE, open_only=open_only))
        yield from page
        if len(page) < _PAGE_SIZE:
            return
        after = page[-1].process_id.encode()


def _newest(view: ViewBrowser, query: ProcessQuery) -> Iterator[Summary]:
    """Yield the newest processes of each partition, as far as ``query`` needs them.

    Offsets follow the times of entries closely, but not exactly, because writers have clocks of their own. So it reads
    until a whole page is too old.
    """
    for partition in range(view.partitions()):
        seen: dict[str, Summary] = {}
        for page in _newest_pages(view, partition, None):
            seen.update((one.process_id, one) for one in page)
            wanted = sum(map(query.wants, seen.values()))
            is_enough = query.sort == "updated" and query.limit is not None and wanted >= query.limit
            if is_enough or (query.since_us is not None and all(one.updated_us < query.since_us for one in page)):
                break
        # Processes that went on meanwhile moved past the pages that were read.
        top = max((one.offset for one in seen.values()), default=-1)
        for page in _newest_pages(view, partition, top):
            seen.update((one.process_id, one) for one in page)
        yield from seen.values()


def _newest_pages(view: ViewBrowser, partition: int, above: int | None) -> Iterator[Sequence[Summary]]:
    """Yield pages of the partition's processes, newest first, down to the offset ``above`` if it is given."""
    below: int | None = None
    while True:
        with _gone():
            page = _valid(view.newest_page(partition, below, _PAGE_SIZE))
        yield [one for one in page if above is None or one.offset > above]
        if len(page) < _PAGE_SIZE or (above is not None and page[-1].offset <= above):
            return
        below = page[-1].offset


def _valid(page: Page) -> Sequence[Summary]:
    if page.meta is None or page.meta.applied is None:
        raise ViewGone("the view is being rebuilt")
    return page.summaries


def _load(view: ViewBrowser, chunk: Sequence[Summary]) -> dict[str, State]:
    """Return the states of these processes by id."""
    keys: dict[int, list[bytes]] = {}
    for one in chunk:
        keys.setdefault(one.partition, []).append(one.process_id.encode())
    states: dict[str, State] = {}
    for partition, some in keys.items():
        with _gone():
            meta = view.meta(partition)
            loaded = None if meta is None else view.load(partition, meta.token, some)
        if loaded is None or loaded.applied is None:
            raise ViewGone("the view is being rebuilt")
        if loaded.damaged:
            raise ViewGone("the view of a process is damaged: a projector writes it anew when the process goes on")
        states |= {key.decode(): state for key, state in loaded.states.items()}
    return states


def _behind(target: CommandTarget) -> dict[int, int]:
    """Return how many offsets the view of each partition is behind. Raises ``ViewGone`` if it cannot be used."""
    from seekpoint.consumers.recovery.base_finder import view_problem

    view, found = _view(target), dict[int, int]()
    for partition in range(target.log.partitions):
        with _gone():
            meta = view.meta(partition)
        marks = target.log.watermarks(partition)  # after the view, so the end is at least what the view has applied
        problem = view_problem(meta, target.log.topic_id, marks)
        if problem or meta is None or meta.applied is None:
            hint = "; a projector keeps it: seekpoint serve projector" if meta is None else ""
            raise ViewGone(f"the view of partition {partition} cannot be used: {problem}{hint}")
        found[partition] = marks.high - 1 - meta.applied
    return found


@contextmanager
def _gone() -> Iterator[None]:
    """Raise what makes a view unusable as ``ViewGone``."""
    from seekpoint.schemas.errors import JournalMismatch, ViewRefused, ViewUnavailable

    try:
        yield
    except (JournalMismatch, ViewRefused, ViewUnavailable) as exc:
        raise ViewGone(exc.message) from exc
