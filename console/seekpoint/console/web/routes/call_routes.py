"""The tab **Calls** of a process, and one call whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from seekpoint.console.render.call_errors import call_note, error_text
from seekpoint.console.web.data.call_comparison import CallComparison, compare_calls
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.formats import moment, span_text
from seekpoint.console.web.json_texts import json_lines, short_json, shortened
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, head_of, read_history, tab_page
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.histories import ProcessHistory
    from seekpoint.producers.durable.replay.call_records import CallRecord

__all__ = ["OPERATIONS", "PAGES", "call_summary"]


class CallsQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the calls of a process, in the order in which they began."""

    first: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """The number of calls before the page."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 200
    partial: bool = False
    """Whether the answer may come before the whole history was read."""


class CallsPageQuery(CallsQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the calls, and the process whose calls they are compared with."""

    other_id: Annotated[str, Meta(max_length=200)] | None = None


class ComparisonQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two processes."""

    other_id: Annotated[str, Meta(min_length=1, max_length=200)]


class CallSummary(FrozenStruct, frozen=True, kw_only=True):
    """A call, with the beginning of its input and its output."""

    number: int
    """Its place among the calls of the process, from 0."""
    key: str
    kind: str
    name: str
    seq: int
    turn: int | None
    status: str
    note: str | None
    """``rewound`` if the process went back to before it; ``inherited``, ``promoted`` or ``answered`` if another process
    gave the call or its answer."""
    attempts: int
    started_at_us: int
    duration_us: int | None
    usage: Any
    cost_usd: str | None
    input: str
    output: str
    error: str | None


class CallsAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A page of calls."""

    process_id: str
    is_complete: bool
    """Whether the whole history was read; if not, there are more calls to come."""
    total: int
    cost_usd: str | None
    """Of all calls."""
    calls: list[CallSummary]
    next: int | None
    """``first`` of the next page."""


class CallQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call."""

    number: Annotated[int, Meta(ge=0, le=10_000_000)]


class CallAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A call, as ``seekpoint steps --json`` has it."""

    process_id: str
    number: int
    call: dict[str, Any]


async def list_calls(visit: Visit, query: CallsQuery) -> CallsAnswer:
    """Return a page of calls."""
    history = await _read(visit, query)
    return await visit.parts.in_thread(lambda: _page(history, query))


async def _read(visit: Visit, query: CallsQuery) -> ProcessHistory:
    after = query.first + query.limit
    return await read_history(visit, query.id, lambda one: one.calls_read > after, partial=query.partial)


def _page(history: ProcessHistory, query: CallsQuery) -> CallsAnswer:
    with history.lock:
        return _page_of(history, query)


def _page_of(history: ProcessHistory, query: CallsQuery) -> CallsAnswer:
    calls = history.calls()
    chosen = calls[query.first : query.first + query.limit]
    after = query.first + query.limit
    return CallsAnswer(
        process_id=query.id, is_complete=history.index.is_complete, total=len(calls), cost_usd=history.cost_usd,
        calls=[call_summary(number, one) for number, one in enumerate(chosen, query.first)],
        next=after if after < len(calls) else None,
    )  # fmt: skip


async def get_call(visit: Visit, query: CallQuery) -> CallAnswer:
    """Return one call whole."""
    history = await read_history(visit, query.id, lambda one: False, partial=False)
    return await visit.parts.in_thread(lambda: _whole(history, query))


def _whole(history: ProcessHistory, query: CallQuery) -> CallAnswer:
    with history.lock:
        known = len(history.calls())
        if query.number >= known:
            message = f"the code of {query.id} has made {known:,} calls, and none with the number {query.number}"
            raise BadRequest(404, "NoSuchCall", message, "calls are numbered from 0; /api/calls lists them")
        return CallAnswer(process_id=query.id, number=query.number, call=history.whole_call(query.number).to_dict())


async def get_comparison(visit: Visit, query: ComparisonQuery) -> CallComparison:
    """Return the first call that differs from another process, and how many do."""
    parts = visit.parts
    for process_id in (query.id, query.other_id):
        await head_of(visit, process_id)
    return await parts.in_thread(lambda: compare_calls(parts.target, parts.histories, query.id, query.other_id))


async def show_calls(visit: Visit, query: CallsPageQuery) -> Response:
    """Show a page of calls. While they are compared with those of another process, the page does not grow."""
    query = replace(query, partial=True)
    history = await _read(visit, query)
    found = await visit.parts.in_thread(lambda: _page(history, query))
    compared = None
    if query.other_id:
        compared = await get_comparison(visit, ComparisonQuery(id=query.id, other_id=query.other_id))
    return await tab_page(
        visit, "process/calls.html", query.id, history=None if compared else history, query=query, found=found,
        compared=compared, origin=await _origin(visit, history),
    )  # fmt: skip


async def _origin(visit: Visit, history: ProcessHistory) -> str | None:
    """Return the process from which this one was forked, or which it runs again; None if none is known yet."""
    one = visit.parts.board.board.summaries.get(history.process_id) or await visit.parts.in_thread(history.summary)
    return None if one is None else one.rerun_of or one.parent_id


async def show_call(visit: Visit, query: CallQuery) -> Response:
    """Show one call whole. A script of the tab puts its ``#whole`` below the call's row."""
    found = await get_call(visit, query)
    call = dict(found.call)
    whole = {name: json_lines(call.pop(name)) for name in ("input", "output", "error")}
    attempts = call.pop("attempts")
    facts = [_fact(name, value) for name, value in call.items() if value is not None]
    return await tab_page(
        visit, "process/call.html", query.id, number=query.number, facts=facts, attempts=attempts, whole=whole
    )


def _fact(name: str, value: Any) -> tuple[str, str]:
    """Return a fact of a call for people: times as times, and its name in words."""
    if name == "duration_us":
        return "took", span_text(value)
    if name.endswith("_us") and isinstance(value, int):
        return name.removesuffix("_us").removesuffix("_at"), moment(value)
    return name.replace("_", " "), short_json(value, 2_000)


def call_summary(number: int, call: CallRecord) -> CallSummary:
    """Return a call with the beginning of what it was asked and what it answered."""
    facts = call.to_dict()
    error = facts["error"]
    return CallSummary(
        number=number, key=call.key, kind=call.kind, name=call.name, seq=call.seq, turn=facts["turn"],
        status=call.status, note=call_note(call), attempts=len(call.attempts), started_at_us=facts["started_at_us"],
        duration_us=facts["duration_us"], usage=facts["usage"], cost_usd=facts["cost_usd"],
        input=short_json(call.input), output=short_json(call.output),
        error=None if error is None else shortened(error_text(error), 500),
    )  # fmt: skip


PAGES = (
    WebPage(path="/calls", show=show_calls, query=CallsPageQuery, tab="Calls"),
    WebPage(path="/call", show=show_call, query=CallQuery),
)
OPERATIONS = (
    Operation(
        path="/api/calls", summary="List the calls of a process's code.", call=list_calls, query=CallsQuery,
        answer=CallsAnswer, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/calls/comparison", summary="Find the first call that differs from another process.",
        call=get_comparison, query=ComparisonQuery, answer=CallComparison, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/call", summary="Return one call with its whole input and output.", call=get_call, query=CallQuery,
        answer=CallAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
