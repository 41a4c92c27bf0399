"""Read summaries of processes from the view: pages by id, pages by the newest entry, and how far the view is behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from typing import TYPE_CHECKING

from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.consumers.view.view_store import Page, ViewBrowser
    from seekpoint.schemas.state.process_state import State

_PAGE_SIZE = 500


class ViewGone(Exception):
    """A partition has no usable view, or its view became unusable. ``why`` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def view_of(target: CommandTarget) -> ViewBrowser:
    """Return the view. Raises ``ViewGone`` if the settings name none."""
    if target.view is None:
        raise ViewGone("the settings name no Redis")
    return target.view


def no_view(target: CommandTarget, partition: int) -> str:
    """Say that a partition has no view yet, and what keeps one."""
    from seekpoint.consumers.recovery.view_summaries import missing_view

    if target.settings.sqlite_path is not None:
        return "the file has no view yet (a worker or seekpoint serve projector writes it)"
    return missing_view(partition)


def by_id(view: ViewBrowser, *, open_only: bool, after: str | None = None) -> Iterator[Summary]:
    """Yield all processes, or the unfinished ones, by id, with a page of each partition in memory.

    With ``after`` only those whose id sorts after it.
    """
    start = (after or "").encode()
    streams = [_pages_by_id(view, partition, open_only, start) for partition in range(view.partitions())]
    return merge(*streams, key=lambda one: one.process_id)  # by code points, which is the order by UTF-8 bytes


def _pages_by_id(view: ViewBrowser, partition: int, open_only: bool, after: bytes) -> Iterator[Summary]:
    while True:
        with _gone():
            page = _valid(view.page(partition, after, b"", _PAGE_SIZE, open_only=open_only))
        yield from page
        if len(page) < _PAGE_SIZE:
            return
        after = page[-1].process_id.encode()


def newest(view: ViewBrowser, query: ProcessQuery) -> Iterator[Summary]:
    """Yield the newest processes of each partition, as far as ``query`` needs them.

    Offsets follow the times of entries closely, but not exactly, because writers have clocks of their own. So it reads
    until a whole page is too old.
    """
    for partition in range(view.partitions()):
        seen: dict[str, Summary] = {}
        for page in newest_pages(view, partition, None):
            seen.update((one.process_id, one) for one in page)
            wanted = sum(map(query.wants, seen.values()))
            is_enough = query.sort == "updated" and query.limit is not None and wanted >= query.limit
            if is_enough or (query.since_us is not None and all(one.updated_us < query.since_us for one in page)):
                break
        # Processes that went on meanwhile moved past the pages that were read.
        top = max((one.offset for one in seen.values()), default=-1)
        for page in newest_pages(view, partition, top):
            seen.update((one.process_id, one) for one in page)
        yield from seen.values()


def newest_pages(view: ViewBrowser, partition: int, above: int | None) -> Iterator[Sequence[Summary]]:
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


def load_states(view: ViewBrowser, chunk: Sequence[Summary]) -> dict[str, State]:
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


def offsets_behind(target: CommandTarget) -> dict[int, int]:
    """Return how many offsets the view of each partition is behind. Raises ``ViewGone`` if it cannot be used."""
    from seekpoint.consumers.recovery.base_finder import view_problem

    view, found = view_of(target), dict[int, int]()
    for partition in range(target.log.partitions):
        with _gone():
            meta = view.meta(partition)
        marks = target.log.watermarks(partition)  # after the view, so the end is at least what the view has applied
        problem = view_problem(meta, target.log.topic_id, marks)
        if problem or meta is None or meta.applied is None:
            raise ViewGone(
                no_view(target, partition)
                if meta is None
                else f"the view of partition {partition} cannot be used: {problem}"
            )
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
