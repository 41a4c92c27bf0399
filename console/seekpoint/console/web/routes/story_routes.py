"""The tab **Story** of a process: its conversation, its calls and what happened to it, in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import orjson
from msgspec import Meta
from msgspec.structs import replace

from seekpoint.console.render.entry_lines import entry_facts, entry_row
from seekpoint.console.web.formats import moment
from seekpoint.console.web.json_texts import json_lines, shortened
from seekpoint.console.web.markdown_text import MarkdownPage
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.call_routes import CallSummary, call_summary
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, read_history, tab_page
from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.histories import ProcessHistory
    from seekpoint.consumers.recovery.process_history import Logged

__all__ = ["OPERATIONS", "PAGES"]

_TEXT_MAX = 20_000
_LINES_MAX, _PAGE_LINES_MAX = 200, 2_000


class StoryQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the story of a process."""

    first: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """The number of parts before the page."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    partial: bool = False
    """Whether the answer may come before the whole history was read."""


class StoryPart(FrozenStruct, frozen=True, kw_only=True):
    """A message, a call, or something that happened to the process."""

    number: int
    """Its place in the story, from 0."""
    kind: str
    """``message``, ``call`` or ``event``."""
    offset: int
    time: str
    """Of the entry, by the clock of who wrote it."""
    role: str | None = None
    """Of a message: who said it."""
    text: str | None = None
    """Of a message, as it was said; of an event, what happened. A long one is cut."""
    value: Any = None
    """The parts or the tool calls of a message, if it has some."""
    call: CallSummary | None = None


class StoryAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A page of a story."""

    process_id: str
    is_complete: bool
    """Whether the whole history was read; if not, there are more parts to come."""
    total: int
    parts: list[StoryPart]
    next: int | None
    """``first`` of the next page."""


async def list_story(visit: Visit, query: StoryQuery) -> StoryAnswer:
    """Return a page of the story."""
    after = query.first + query.limit
    history = await read_history(visit, query.id, lambda one: len(one.story) > after, partial=query.partial)
    return await visit.parts.in_thread(lambda: _page(history, query))


def _page(history: ProcessHistory, query: StoryQuery) -> StoryAnswer:
    with history.lock:
        calls, total = history.calls(), len(history.story)
        chosen = history.story[query.first : query.first + query.limit]
        summaries = {one.call: call_summary(one.call, calls[one.call]) for one in chosen if one.call is not None}
        is_complete = history.index.is_complete
    entries = {one.offset: one for one in history.entries(sorted({one.offset for one in chosen}))}
    parts = [
        _part(number, entries[one.offset], history.index.partition, None if one.call is None else summaries[one.call])
        for number, one in enumerate(chosen, query.first)
        if one.offset in entries  # else it was deleted meanwhile
    ]
    after = query.first + query.limit
    return StoryAnswer(
        process_id=query.id, is_complete=is_complete, total=total, parts=parts, next=after if after < total else None
    )


def _part(number: int, logged: Logged, partition: int, call: CallSummary | None) -> StoryPart:
    body, time = logged.entry.body, moment(logged.entry.ts)
    if call is not None:
        return StoryPart(number=number, kind="call", offset=logged.offset, time=moment(call.started_at_us), call=call)
    if isinstance(body, MessageSaid):
        role = body.role if body.name is None else f"{body.role} {body.name}"
        return StoryPart(
            number=number, kind="message", offset=logged.offset, time=time, role=role,
            text=None if body.content is None else shortened(body.content, _TEXT_MAX), value=_value(body),
        )  # fmt: skip
    text = f"{logged.entry.kind.replace('_', ' ')}  {entry_row(entry_facts(logged, partition, None))[-1]}"
    return StoryPart(number=number, kind="event", offset=logged.offset, time=time, text=shortened(text, 1_000))


def _value(body: MessageSaid) -> Any:
    given = {"parts": body.parts, "tool calls": body.tool_calls}
    found = {name: orjson.loads(text) for name, text in given.items() if text is not None}
    if body.tool_call_id is not None:
        found["answers the tool call"] = body.tool_call_id
    return found or None


async def show_story(visit: Visit, query: StoryQuery) -> Response:
    """Show a page of the story. Messages are shown as Markdown."""
    query = replace(query, partial=True)
    found = await list_story(visit, query)
    shown = await visit.parts.in_thread(_shown, found.parts)
    history = visit.parts.histories.of(query.id)
    return await tab_page(
        visit, "process/story.html", query.id, history=history, query=query, found=found, shown=shown
    )  # fmt: skip


def _shown(parts: list[StoryPart]) -> list[tuple[StoryPart, str, list[str]]]:
    page, lines_left = MarkdownPage(), _PAGE_LINES_MAX
    shown = []
    for part in parts:
        lines = _lines(part.value, max(0, min(_LINES_MAX, lines_left)))
        lines_left -= len(lines)
        shown.append((part, page.html(part.text) if part.kind == "message" and part.text else "", lines))
    return shown


def _lines(value: Any, lines_max: int) -> list[str]:
    lines = json_lines(value)
    if len(lines) > lines_max:
        lines = [*lines[:lines_max], f"… {len(lines) - lines_max:,} more lines: see Entries"]
    return [shortened(line, 1_000) for line in lines]


PAGES = (WebPage(path="/story", show=show_story, query=StoryQuery, tab="Story"),)
OPERATIONS = (
    Operation(
        path="/api/story", summary="Tell the messages, calls and events of a process.", call=list_story,
        query=StoryQuery, answer=StoryAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
