"""One process: its head, which all tabs share, and its present state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from seekpoint.console.render.states import state_facts, state_lines
from seekpoint.console.web.data.board import ProcessRow
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from seekpoint.console.web.data.histories import ProcessHistory
    from seekpoint.console.web.data.history_streams import HistoryProgress

__all__ = ["OPERATIONS", "PAGES", "ProcessIdQuery", "head_of", "quick_head", "read_history", "tab_page"]


class ProcessIdQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that a tab shows."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]


async def head_of(visit: Visit, process_id: str) -> ProcessRow:
    """Return what the list says of a process. One that the list does not have is recovered.

    Raises ``InvalidName`` and ``UnknownProcess``.
    """
    from seekpoint.consumers.view.process_summary import summary_of
    from seekpoint.schemas.log.partition import partition_of

    key = named_process_key(process_id)
    board = await visit.parts.board.current(timeout_s=0.2)
    summary = board.summaries.get(process_id)
    if summary is None:
        target = visit.parts.target
        found = await visit.parts.in_thread(lambda: target.recoverer.recover(process_id))
        summary = summary_of(partition_of(key, target.log.partitions), key, found.state)
    return board.row(summary)


_PATIENCE_S = 0.25
"""So long a page reads on before it shows what it has; a script fills in the rest."""


async def read_history(
    visit: Visit, process_id: str, enough: Callable[[ProcessHistory], bool], *, partial: bool
) -> ProcessHistory:
    """Return the history of a process, read until the end; if ``partial``, until ``enough`` or for a moment.

    Raises ``InvalidName`` and ``UnknownProcess``.
    """
    named_process_key(process_id)
    history = visit.parts.histories.of(process_id)

    def read() -> None:
        if partial:
            history.read(enough=lambda: enough(history), seconds=_PATIENCE_S)
        else:
            history.read()

    await visit.parts.in_thread(read)
    if partial and not history.index.marks and not visit.parts.board.board.source.loading:
        await head_of(visit, process_id)  # it is not in what was read of the log so far: there may be none
    return history


class UnknownYet(FrozenStruct, frozen=True):
    """The head of a process whose history is still being read."""

    process_id: str


async def quick_head(visit: Visit, history: ProcessHistory) -> ProcessRow | UnknownYet:
    """Return the head of a process without waiting: from the list, or from what was read of its history."""
    poller = visit.parts.board
    board = await poller.current(timeout_s=0.0 if poller.board.source.loading else 0.2)
    summary = board.summaries.get(history.process_id)
    read = await visit.parts.in_thread(history.summary)
    if read is not None and (summary is None or read.updated_us >= summary.updated_us):
        summary = read
    return UnknownYet(history.process_id) if summary is None else board.row(summary)


async def tab_page(
    visit: Visit, template: str, process_id: str, *, history: ProcessHistory | None = None, **values: Any
) -> Response:
    """Return the page of a tab: the head of the process above ``template``, which extends ``process/base.html``.

    With a ``history`` the page does not wait until it is known how the process stands: a script fills this in.
    """
    from seekpoint.console.web.routes import PAGES

    head = await head_of(visit, process_id) if history is None else await quick_head(visit, history)
    values["follows"] = history is not None
    role = visit.identity.role
    tabs = [(page.tab, page.path) for page in PAGES if page.tab is not None and page.role <= role]
    return visit.parts.templates.page(visit, template, one=head, tabs=tabs, **values)


class StateAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A state, as ``seekpoint state --json`` has it."""

    process_id: str
    state: dict[str, Any]


async def show_state(visit: Visit, query: ProcessIdQuery) -> Response:
    """Show the present state."""
    lines = state_lines(await _state(visit, query.id))
    return await tab_page(visit, "process/state.html", query.id, lines=lines)


async def get_state(visit: Visit, query: ProcessIdQuery) -> StateAnswer:
    """Return the present state."""
    return StateAnswer(process_id=query.id, state=await _state(visit, query.id))


async def _state(visit: Visit, process_id: str) -> dict[str, Any]:
    named_process_key(process_id)
    recoverer = visit.parts.target.recoverer
    return state_facts(process_id, await visit.parts.in_thread(lambda: recoverer.recover(process_id)))


async def stream_process(visit: Visit, query: ProcessIdQuery) -> Response:
    """Tell how much of the history was read, and how the process stands, now and after each change."""
    named_process_key(query.id)
    parts = visit.parts

    async def render(progress: HistoryProgress) -> bytes:
        head = None
        if progress.is_complete:
            one = await quick_head(visit, parts.histories.of(query.id))
            head = parts.templates.text("process/head.html", one=one)
        return msgspec.json.encode({**msgspec.structs.asdict(progress), "head": head})

    return StreamingResponse(parts.history_streams.follow(query.id, render), media_type="text/event-stream")


async def get_process(visit: Visit, query: ProcessIdQuery) -> ProcessRow:
    """Return one process of the list."""
    return await head_of(visit, query.id)


PAGES = (
    WebPage(path="/process", show=show_state, query=ProcessIdQuery, tab="State"),
    WebPage(path="/events/process", show=stream_process, query=ProcessIdQuery),
)
OPERATIONS = (
    Operation(
        path="/api/process", summary="Say how a process stands.", call=get_process, query=ProcessIdQuery,
        answer=ProcessRow, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/state", summary="Recover the state of a process.", call=get_state, query=ProcessIdQuery,
        answer=StateAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
