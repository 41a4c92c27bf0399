"""The tab **Timeline** of a process. Its script asks for the rows that somebody looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from seekpoint.console.web.data.timeline import WAITS, Band, Bar, IdleGap, Timeline, bars_of, branch_of
from seekpoint.console.web.json_texts import short_json
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.call_routes import call_summary
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, read_history, tab_page
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.entry_index import EntryMark
    from seekpoint.console.web.data.histories import ProcessHistory
    from seekpoint.producers.durable.replay.call_records import CallRecord

__all__ = ["OPERATIONS", "PAGES"]

_BEHIND_MAX = 400
"""So many bands, and so many gaps, come with a window at most."""
_SUMMARY_CHARACTERS = 100
_WINDOW_AHEAD = 50
"""Calls beyond a window that are read first, since later entries may tell of earlier times."""


class TimelineQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window of the rows, in the order of time."""

    first: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 200
    whole: bool = False
    """Whether bands and gaps are those of the whole timeline, not of the window."""
    partial: bool = False
    """Whether the answer may come before the whole history was read."""


class TimelineRow(FrozenStruct, frozen=True, kw_only=True):
    """A call, or a write of a former owner."""

    row: int
    call: int | None
    """The number of the call."""
    offset: int | None
    """Of a fenced write: its offset."""
    key: str
    """Of a fenced write: the kind of the entry."""
    kind: str
    branch: str
    """``~1.2``: the second branch of the first group; empty outside of branches."""
    status: str
    note: str | None
    attempts: int
    epoch: int | None
    """Of a fenced write: the epoch of its owner."""
    summary: str
    bars: list[Bar]


class TimelineAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A window of the rows, with the epochs and the idle gaps of its time."""

    process_id: str
    is_complete: bool
    """Whether the whole history was read; if not, there are more rows to come."""
    total: int
    """Rows of the whole timeline, as far as it was read."""
    start_us: int
    """Of the whole timeline, as ``end_us``."""
    end_us: int
    rows: list[TimelineRow]
    bands: list[Band]
    gaps: list[IdleGap]


async def get_timeline(visit: Visit, query: TimelineQuery) -> TimelineAnswer:
    """Return a window of the timeline."""
    wanted = query.first + query.limit
    history = await read_history(
        visit, query.id, lambda one: one.calls_read > wanted + _WINDOW_AHEAD, partial=query.partial
    )
    return await visit.parts.in_thread(lambda: _window(history, query))


async def show_timeline(visit: Visit, query: ProcessIdQuery) -> Response:
    """Show the frame of the timeline. A process that does not exist is an error already here."""
    history = await read_history(visit, query.id, lambda one: len(one.index.marks) > 0, partial=True)
    return await tab_page(visit, "process/timeline.html", query.id, history=history)


def _window(history: ProcessHistory, query: TimelineQuery) -> TimelineAnswer:
    with history.lock:
        return _window_of(history, query)


def _window_of(history: ProcessHistory, query: TimelineQuery) -> TimelineAnswer:
    calls, timeline = history.calls(), history.timeline()
    places = timeline.places[query.first : query.first + query.limit]
    rows = [
        _call_row(row, place.call, calls[place.call]) if place.fenced is None else _fenced_row(row, place.fenced)
        for row, place in enumerate(places, query.first)
    ]
    bands, gaps = (timeline.bands, timeline.gaps) if query.whole else _behind(timeline, rows)
    return TimelineAnswer(
        process_id=query.id, is_complete=history.index.is_complete, total=len(timeline.places),
        start_us=timeline.start_us, end_us=timeline.end_us, rows=rows,
        bands=bands[:_BEHIND_MAX], gaps=gaps[:_BEHIND_MAX],
    )  # fmt: skip


def _call_row(row: int, number: int, call: CallRecord) -> TimelineRow:
    told = call_summary(number, call)
    summary = told.error if told.status == "failed" and told.error is not None else _asked_and_answered(call)
    return TimelineRow(
        row=row, call=number, offset=None, key=call.key, kind=call.kind, branch=branch_of(call.key),
        status=told.status, note=told.note, attempts=told.attempts, epoch=None, summary=summary, bars=bars_of(call),
    )  # fmt: skip


def _asked_and_answered(call: CallRecord) -> str:
    values = [call.input, *([] if call.last.outcome is None else [call.output])]
    return " → ".join(short_json(value, _SUMMARY_CHARACTERS) for value in values if value is not None)


def _fenced_row(row: int, mark: EntryMark) -> TimelineRow:
    return TimelineRow(
        row=row, call=None, offset=mark.offset, key=mark.kind, kind="fenced write", branch="", status="fenced",
        note=None, attempts=0, epoch=mark.epoch,
        summary=f"written in epoch {mark.epoch} by a former owner, not applied",
        bars=[Bar(what="fenced", start_us=mark.ts_us, end_us=mark.ts_us)],
    )  # fmt: skip


def _behind(timeline: Timeline, rows: list[TimelineRow]) -> tuple[list[Band], list[IdleGap]]:
    """Return the bands and gaps in the time of the rows."""
    if not rows:
        return [], []
    start = min(row.bars[0].start_us for row in rows)
    ends = [bar.end_us for row in rows for bar in row.bars if bar.end_us is not None and row.kind not in WAITS]
    end = max([*ends, *(row.bars[-1].start_us for row in rows)])
    if rows[-1].row == len(timeline.places) - 1:
        end = timeline.end_us
    bands = [one for one in timeline.bands if one.start_us <= end and (one.end_us is None or one.end_us >= start)]
    gaps = [one for one in timeline.gaps if one.start_us <= end and one.end_us >= start]
    return bands, gaps


PAGES = (WebPage(path="/timeline", show=show_timeline, query=ProcessIdQuery, tab="Timeline"),)
OPERATIONS = (
    Operation(
        path="/api/timeline", summary="Return a window of the timeline of a process.", call=get_timeline,
        query=TimelineQuery, answer=TimelineAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
