"""One process: its head, which all tabs share, and its present state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from seekpoint.console.render.states import state_facts, state_lines
from seekpoint.console.web.data.board import ProcessRow
from seekpoint.console.web.declarations import Operation, Page, Visit
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["OPERATIONS", "PAGES", "ProcessQuery", "head_of", "tab_page"]


class ProcessQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


async def tab_page(visit: Visit, template: str, process_id: str, **values: Any) -> Response:
    """Return the page of a tab: the head of the process above ``template``, which extends ``process.html``."""
    from seekpoint.console.web.routes import PAGES

    head = await head_of(visit, process_id)
    role = visit.identity.role
    tabs = [(page.tab, page.path) for page in PAGES if page.tab is not None and page.role <= role]
    return visit.parts.templates.page(visit, template, one=head, tabs=tabs, **values)


class StateAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A state, as ``seekpoint state --json`` has it."""

    process_id: str
    state: dict[str, Any]


async def show_state(visit: Visit, query: ProcessQuery) -> Response:
    """Show the present state."""
    lines = state_lines(await _state(visit, query.id))
    return await tab_page(visit, "process_state.html", query.id, lines=lines)


async def get_state(visit: Visit, query: ProcessQuery) -> StateAnswer:
    """Return the present state."""
    return StateAnswer(process_id=query.id, state=await _state(visit, query.id))


async def _state(visit: Visit, process_id: str) -> dict[str, Any]:
    named_process_key(process_id)
    recoverer = visit.parts.target.recoverer
    return state_facts(process_id, await visit.parts.in_thread(lambda: recoverer.recover(process_id)))


async def get_process(visit: Visit, query: ProcessQuery) -> ProcessRow:
    """Return one process of the list."""
    return await head_of(visit, query.id)


PAGES = (Page(path="/process", show=show_state, query=ProcessQuery, tab="State"),)
OPERATIONS = (
    Operation(
        path="/api/process", summary="Say how a process stands.", call=get_process, query=ProcessQuery,
        answer=ProcessRow, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/state", summary="Recover the state of a process.", call=get_state, query=ProcessQuery,
        answer=StateAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
