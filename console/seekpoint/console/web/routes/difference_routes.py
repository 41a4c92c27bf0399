"""Compare two moments: of one process, of two, of a fork and its parent."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from seekpoint.console.web.data.state_diff import StateDifference, differences, path_text
from seekpoint.console.web.data.state_sections import BOOKKEEPING
from seekpoint.console.web.json_texts import short_json
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, tab_page
from seekpoint.console.web.routes.time_machine_routes import Seq, moments_of
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["OPERATIONS", "PAGES"]

_DIFFERENCES_MAX = 1_000
_CHARACTERS_MAX = 2_000


class DifferencesQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two moments."""

    seq: Seq | None = None
    """Right after this seq; by default as of now."""
    other_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """By default the same process."""
    other_seq: Seq | None = None


class DifferencesAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The differences. Offsets, times and counters are not compared."""

    process_id: str
    seq: int
    other_id: str
    other_seq: int
    is_same_content: bool
    """Whether context, conversation, calls and lifecycle are the same, so that the code of an agent sees no difference.
    """
    differences: list[StateDifference]
    """The first 1,000. ``left`` is of ``process_id``."""
    has_more: bool
    command: str
    """It compares the same moments."""


async def list_differences(visit: Visit, query: DifferencesQuery) -> DifferencesAnswer:
    """Return what differs between two moments."""
    other_id = query.other_id or query.id
    left, right = moments_of(visit, query.id), moments_of(visit, other_id)

    def compare() -> DifferencesAnswer:
        one, other = left.state(query.seq), right.state(query.other_seq)
        found = [*islice(differences(one, other), _DIFFERENCES_MAX + 1)]
        names = [_name(query.id, query.seq), _name(other_id, query.other_seq)]
        return DifferencesAnswer(
            process_id=query.id, seq=one.seq, other_id=other_id, other_seq=other.seq,
            is_same_content=one.content_hash == other.content_hash, differences=found[:_DIFFERENCES_MAX],
            has_more=len(found) > _DIFFERENCES_MAX, command=f"seekpoint diff {pasted(*names)}",
        )  # fmt: skip

    return await visit.parts.in_thread(compare)


def _name(process_id: str, seq: int | None) -> str:
    return process_id if seq is None else f"{process_id}@{seq}"


async def show_differences(visit: Visit, query: DifferencesQuery) -> Response:
    """Show what differs between two moments."""
    found = await list_differences(visit, query)
    rows = [(one.path[0] == BOOKKEEPING, _row(one)) for one in found.differences]
    tables = [("What the agent has", [row for is_own, row in rows if not is_own])]
    if kept := [row for is_own, row in rows if is_own]:
        tables.append(("What the journal keeps of it", kept))
    return await tab_page(visit, "process/differences.html", query.id, query=query, found=found, tables=tables)


def _row(one: StateDifference) -> tuple[str, str, str | None, str | None]:
    left = None if one.what == "added" else short_json(one.left, _CHARACTERS_MAX)
    right = None if one.what == "removed" else short_json(one.right, _CHARACTERS_MAX)
    return path_text(one.path), one.what, left, right


PAGES = (WebPage(path="/differences", show=show_differences, query=DifferencesQuery),)
OPERATIONS = (
    Operation(
        path="/api/differences", summary="Compare two moments of a process, or of two processes.",
        call=list_differences, query=DifferencesQuery, answer=DifferencesAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
