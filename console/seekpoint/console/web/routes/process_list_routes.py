"""The home page: all processes of the journal, live."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import RedirectResponse, Response, StreamingResponse

from seekpoint.console.services.arguments.process_query import SORTS, STATUSES
from seekpoint.console.web.data.board import ONLY, ListQuery, ProcessList
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit, WebPage

if TYPE_CHECKING:
    from seekpoint.console.web.parts import ConsoleParts
    from seekpoint.console.web.rendering import Templates

__all__ = ["OPERATIONS", "PAGES", "list_stream"]


_PATIENCE_S = 0.8
"""So long the page waits for the journal to be read. Then it says that it is being read, and a script fills it in."""


async def show_home(visit: Visit, query: NoQuery) -> Response:
    """Send the browser to the processes."""
    return RedirectResponse("/processes", 303)


async def show_processes(visit: Visit, query: ListQuery) -> Response:
    """Show the list, with the query bar that the address has."""
    board = await visit.parts.board.current(_PATIENCE_S)
    found = board.listed(query)
    return visit.parts.templates.page(
        visit, "processes/page.html", query=query, found=found, statuses=STATUSES, sorts=SORTS, only=ONLY,
        stream=f"/events/processes?{visit.request.url.query}", parts=list_parts(visit.parts.templates, query, found),
    )  # fmt: skip


async def stream_processes(visit: Visit, query: ListQuery) -> Response:
    """Send the list again each time it changes."""
    query.process_query()  # a bad query is an answer, not an end in the middle of a stream
    await visit.parts.board.current(_PATIENCE_S)
    return StreamingResponse(list_stream(visit.parts, query), media_type="text/event-stream")


async def list_processes(visit: Visit, query: ListQuery) -> ProcessList:
    """Return a page of the processes."""
    return (await visit.parts.board.current()).listed(query)


def list_parts(templates: Templates, query: ListQuery, found: ProcessList) -> dict[str, Any]:
    """Return the parts of the page that change, as HTML."""
    behind = query.skip + query.limit
    pages = {
        "previous": query.address(max(0, query.skip - query.limit)) if query.skip else None,
        "following": query.address(behind) if behind < found.total else None,
    }
    return {
        "rows": templates.text("processes/rows.html", found=found),
        "counts": templates.text("processes/counts.html", found=found),
        "source": templates.text("source_line.html", found=found, **pages),
    }


def list_stream(parts: ConsoleParts, query: ListQuery) -> AsyncGenerator[bytes, None]:
    """Return the stream of a list. Streams of equal queries share one computation."""

    def make() -> bytes:
        return msgspec.json.encode(list_parts(parts.templates, query, parts.board.board.listed(query)))

    return parts.streams.events("list", query, make)


PAGES = (
    WebPage(path="/", show=show_home),
    WebPage(path="/processes", show=show_processes, query=ListQuery, nav="Processes"),
    WebPage(path="/events/processes", show=stream_processes, query=ListQuery),
)
OPERATIONS = (
    Operation(
        path="/api/processes", summary="List the processes of the journal.", call=list_processes, query=ListQuery,
        answer=ProcessList,
    ),
)  # fmt: skip
