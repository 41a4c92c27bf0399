"""The tab **Entries** of a process, and one entry whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta
from msgspec.structs import replace

from seekpoint.console.render.entry_lines import entry_facts, entry_row
from seekpoint.console.web.data.entry_search import (
    EntryPage,
    EntrySearch,
    entries_after,
    entries_before,
    offset_of_seq,
)
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.json_texts import json_lines, shortened
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, read_history, tab_page
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.histories import ProcessHistory

__all__ = ["OPERATIONS", "PAGES"]

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
_SUMMARY_CHARACTERS = 300
_VALUES_MAX = 20


class EntriesQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choice of entries, and where the page begins: at an offset, at a seq, or right before an offset."""

    kind: Annotated[tuple[Text, ...], Meta(max_length=_VALUES_MAX)] = ()
    """One of these. A custom entry has its own kind, and ``custom``."""
    not_kind: Annotated[tuple[Text, ...], Meta(max_length=_VALUES_MAX)] = ()
    epoch: Annotated[tuple[Offset, ...], Meta(max_length=_VALUES_MAX)] = ()
    """One of these. An entry of nobody's has the epoch of the process at its offset."""
    not_epoch: Annotated[tuple[Offset, ...], Meta(max_length=_VALUES_MAX)] = ()
    text: Annotated[tuple[Text, ...], Meta(max_length=_VALUES_MAX)] = ()
    """All of these, in any case, in the body without its times, the actor or the correlation id; or a whole id."""
    not_text: Annotated[tuple[Text, ...], Meta(max_length=_VALUES_MAX)] = ()
    offset: Offset | None = None
    seq: Offset | None = None
    before: Offset | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 200
    partial: bool = False
    """Whether the answer may come before the whole history was read."""

    @property
    def filter(self) -> EntrySearch:
        """Return the filter."""
        return EntrySearch(
            kinds=frozenset(self.kind), not_kinds=frozenset(self.not_kind), epochs=frozenset(self.epoch),
            not_epochs=frozenset(self.not_epoch), texts=self.text, not_texts=self.not_text,
        )  # fmt: skip

    def address(self, **place: int) -> str:
        """Return the address of the page with the same filter at another place."""
        names = ("kind", "not_kind", "epoch", "not_epoch", "text", "not_text")
        given = {"id": self.id, **{name: getattr(self, name) for name in names}, "limit": self.limit, **place}
        return f"/entries?{urlencode(given, doseq=True)}"


class EntrySummary(FrozenStruct, frozen=True, kw_only=True):
    """An entry, with what it says on one line."""

    offset: int
    time: str
    id: str
    seq: int | None
    epoch: int
    kind: str
    actor: str | None
    verdict: str | None
    """What the fold made of it; null: the beginning of the log was deleted."""
    summary: str


class EntriesAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A page of entries, in log order."""

    process_id: str
    partition: int
    is_complete: bool
    """Whether the whole history was read; if not, there are more entries to come."""
    total: int
    """Entries of the process, of all kinds."""
    log_start: int
    """Above 0: the entries below this offset were deleted."""
    kinds: dict[str, int]
    epochs: list[int]
    entries: list[EntrySummary]
    next: int | None
    """``offset`` of the next page."""
    previous: int | None
    """``before`` of the page before."""
    searched: int
    is_cut: bool
    """Whether the search ended early: the next page goes on, or backwards the page before."""


class EntryQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry."""

    offset: Offset


class EntryAnswer(FrozenStruct, frozen=True, kw_only=True):
    """An entry, as ``seekpoint log --json`` has it."""

    process_id: str
    entry: dict[str, Any]


async def list_entries(visit: Visit, query: EntriesQuery) -> EntriesAnswer:
    """Return a page of entries."""
    history = await _read(visit, query)
    return await visit.parts.in_thread(lambda: _page(history, query))


async def _read(visit: Visit, query: EntriesQuery) -> ProcessHistory:
    if sum(place is not None for place in (query.offset, query.seq, query.before)) > 1:
        raise BadRequest(400, "BadQuery", "offset, seq and before exclude each other", "give one of them")
    wanted = EntriesQuery(id=query.id) == replace(query, limit=200, partial=False)

    def is_enough(history: ProcessHistory) -> bool:
        return wanted and len(history.index.marks) > query.limit

    return await read_history(visit, query.id, is_enough, partial=query.partial)


def _page(history: ProcessHistory, query: EntriesQuery) -> EntriesAnswer:
    marks = history.index.marks
    if query.before is not None:
        found = entries_before(history, query.filter, query.before, query.limit)
    else:
        start = query.offset or 0 if query.seq is None else offset_of_seq(marks, query.seq)
        found = entries_after(history, query.filter, start, query.limit)
    return EntriesAnswer(
        process_id=query.id, partition=history.index.partition, is_complete=history.index.is_complete,
        total=len(marks), log_start=history.index.low,
        kinds=dict(sorted(Counter(mark.kind for mark in marks).items())),
        epochs=sorted({mark.epoch for mark in marks}), entries=_summaries(found), next=found.next,
        previous=found.previous, searched=found.searched, is_cut=found.is_cut,
    )  # fmt: skip


def _summaries(found: EntryPage) -> list[EntrySummary]:
    return [
        EntrySummary(
            offset=one["offset"], time=one["time"], id=one["id"], seq=one["seq"], epoch=one["epoch"], kind=one["kind"],
            actor=one["actor"], verdict=one["verdict"],
            summary=shortened(str(entry_row({**one, "verdict": None})[-1]), _SUMMARY_CHARACTERS),
        )
        for one in found.entries
    ]  # fmt: skip


async def get_entry(visit: Visit, query: EntryQuery) -> EntryAnswer:
    """Return one entry whole."""
    history = await read_history(
        visit, query.id, lambda one: bool(one.index.marks) and one.index.marks[-1].offset >= query.offset, partial=False
    )
    entry = await visit.parts.in_thread(lambda: _entry(history, query.offset))
    return EntryAnswer(process_id=query.id, entry=entry)


def _entry(history: ProcessHistory, offset: int) -> dict[str, Any]:
    mark = next((one for one in history.index.marks if one.offset == offset), None)
    logged = None if mark is None else next(history.entries([offset]), None)
    if mark is None or logged is None:
        message = f"{history.process_id} has no entry at offset {offset} of partition {history.index.partition}"
        raise BadRequest(404, "NoSuchEntry", message, "/api/entries lists its entries")
    return entry_facts(logged, history.index.partition, mark.verdict)


async def show_entries(visit: Visit, query: EntriesQuery) -> Response:
    """Show a page of entries."""
    query = replace(query, partial=True)
    history = await _read(visit, query)
    found = await visit.parts.in_thread(lambda: _page(history, query))
    return await tab_page(visit, "process/entries.html", query.id, history=history, query=query, found=found)


async def show_entry(visit: Visit, query: EntryQuery) -> Response:
    """Show one entry whole. A script of the tab puts its ``#whole`` below the entry's row."""
    found = await get_entry(visit, query)
    lines = json_lines(found.entry)
    return await tab_page(visit, "process/entry.html", query.id, offset=query.offset, lines=lines)


PAGES = (
    WebPage(path="/entries", show=show_entries, query=EntriesQuery, tab="Entries"),
    WebPage(path="/entry", show=show_entry, query=EntryQuery),
)
OPERATIONS = (
    Operation(
        path="/api/entries", summary="List the entries of a process, with the fold's verdicts.", call=list_entries,
        query=EntriesQuery, answer=EntriesAnswer, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/entry", summary="Return one entry with its whole body.", call=get_entry, query=EntryQuery,
        answer=EntryAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
