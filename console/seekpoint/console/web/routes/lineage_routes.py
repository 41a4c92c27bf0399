"""The tab **Lineage** of a process: where it comes from, what comes from it, and which forks came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, tab_page
from seekpoint.producers.history.lineages import Descendant, Parent, lineage_of
from seekpoint.schemas.bodies import Promoted
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.histories import Histories

__all__ = ["OPERATIONS", "PAGES"]

_DESCENDANTS_MAX = 2_000
_PROMOTIONS_MAX = 200


class Promotion(FrozenStruct, frozen=True, kw_only=True):
    """A promotion: the process took over what its fork did."""

    process_id: str
    """The process that took it over."""
    seq: int
    """The seq of the entry that says so."""
    fork_id: str
    fork_seq: int
    """It took over what the fork did until this seq."""


class LineageAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A process with its parents and what comes from it, as ``seekpoint lineage --json`` has it, and promotions."""

    process_id: str
    status: str
    parents: list[Parent]
    """The farthest first."""
    descendants: list[Descendant]
    """In the order of a tree, the first 2,000."""
    total: int
    """How many descendants there are."""
    promotions: list[Promotion]
    """Into this process, and of this process into the one from which it was forked; the newest 200."""


async def get_lineage(visit: Visit, query: ProcessIdQuery) -> LineageAnswer:
    """Return where a process comes from and what comes from it."""
    named_process_key(query.id)
    board = await visit.parts.board.current()
    if board.source.loading:
        raise BadRequest(503, "Loading", "the console still reads the processes", "try again in a moment")
    found = lineage_of(query.id, board.summaries.values())
    parent = found.parents[-1] if found.parents else None
    promotions: list[Promotion] = []
    if any(one.relation == "fork" and one.depth == 1 for one in found.descendants):
        promotions += await visit.parts.in_thread(_promotions, visit.parts.histories, query.id)
    if parent is not None and parent.relation == "fork" and parent.status is not None:
        into_parent = await visit.parts.in_thread(_promotions, visit.parts.histories, parent.process_id)
        promotions += [one for one in into_parent if one.fork_id == query.id]
    return LineageAnswer(
        process_id=query.id, status=found.status, parents=[*found.parents],
        descendants=[*found.descendants[:_DESCENDANTS_MAX]], total=len(found.descendants), promotions=promotions,
    )  # fmt: skip


def _promotions(histories: Histories, process_id: str) -> list[Promotion]:
    """Return the forks whose work a process took over, the oldest first."""
    history = histories.of(process_id)
    history.read()
    offsets = [
        mark.offset
        for mark in history.index.marks
        if mark.kind == Promoted.KIND and (mark.verdict is None or mark.verdict.name == "APPLIED")
    ]
    found = []
    for _, _, entry in history.entries(offsets[-_PROMOTIONS_MAX:]):
        body = entry.body
        assert isinstance(body, Promoted)
        found.append(Promotion(process_id=process_id, seq=entry.seq or 0, fork_id=body.fork_id, fork_seq=body.fork_seq))
    return found


async def show_lineage(visit: Visit, query: ProcessIdQuery) -> Response:
    """Show the tree."""
    found = await get_lineage(visit, query)
    return await tab_page(visit, "process/lineage.html", query.id, found=found)


PAGES = (WebPage(path="/lineage", show=show_lineage, query=ProcessIdQuery, tab="Lineage"),)
OPERATIONS = (
    Operation(
        path="/api/lineage", summary="Return the parents, forks, reruns and children of a process, and promotions.",
        call=get_lineage, query=ProcessIdQuery, answer=LineageAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
