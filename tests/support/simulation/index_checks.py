"""What is wrong with the indexes of a view: they must be what one computes from its states alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from seekpoint.consumers.view.process_summary import Summary, is_open_process, summary_of
from seekpoint.consumers.view.view_store import ViewBrowser
from seekpoint.schemas.state.process_state import State

__all__ = ["index_problems"]


def index_problems(view: ViewBrowser, partition: int, states: Mapping[bytes, State]) -> Iterator[str]:
    """Yield each difference between the lists of the view and those that follow from all its ``states``."""
    expected = {key: summary_of(partition, key, state) for key, state in states.items()}
    still_open = {key: one for key, one in expected.items() if is_open_process(key, states[key])}
    newest = sorted(expected.values(), key=lambda one: (one.offset, one.process_id), reverse=True)
    pages = {
        "by id": (view.page(partition, b"", b"", 1_000).summaries, _by_id(expected)),
        "open": (view.page(partition, b"", b"", 1_000, open_only=True).summaries, _by_id(still_open)),
        "newest": (view.newest_page(partition, None, 1_000).summaries, newest),
    }
    for name, (found, wanted) in pages.items():
        if list(found) != wanted:
            yield f"the list {name} is {found}, not {wanted}"


def _by_id(summaries: Mapping[bytes, Summary]) -> list[Summary]:
    return [one for _, one in sorted(summaries.items())]
