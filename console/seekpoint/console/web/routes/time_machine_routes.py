"""The tab **Time machine** of a process: its state at every seq, whether the stored states are right, and copies."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from seekpoint.console.render.entry_lines import entry_facts, entry_row
from seekpoint.console.web.data.fixture_text import fixture_text
from seekpoint.console.web.data.refold import Refold, refold
from seekpoint.console.web.data.state_diff import StateDifference, differences, state_tree
from seekpoint.console.web.data.state_sections import state_json
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.formats import moment as time_text
from seekpoint.console.web.json_texts import shortened
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, tab_page
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key, pasted

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.web.data.moments import JudgedEntry, Moment, ProcessMoments

__all__ = ["OPERATIONS", "PAGES", "Seq", "moments_of", "state_command"]

Seq = Annotated[int, Meta(ge=0, le=2**53)]
_WAIT_S = 0.4
"""The page of a long history that is still being read says so after this time, and asks again."""
_CHANGES_MAX = 500
_ENTRIES_MAX = 5_000
_TEXT_CHARACTERS_MAX = 1_048_576
_SUMMARY_CHARACTERS = 300


class MomentQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A moment of a process."""

    seq: Seq | None = None
    """Right after the entry with this seq; by default the last one."""


class MomentEntry(FrozenStruct, frozen=True, kw_only=True):
    """An entry between the seq before and the moment."""

    offset: int
    seq: int | None
    epoch: int
    kind: str
    time: str
    actor: str | None
    verdict: str
    summary: str


class MomentAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A process right after one seq."""

    process_id: str
    partition: int
    seq: int
    first_seq: int
    """The first seq that can be asked for."""
    last_seq: int
    behind: int
    """How many entries without a seq follow the last seq: signals, claims, requests."""
    offset: int
    time: str
    """Of the newest entry, by its writer's clock."""
    entries: list[MomentEntry]
    """Those since the seq before, the newest 100. The last one has the seq."""
    changes: list[StateDifference]
    """What differs from the state after the seq before, the first 500."""
    has_more_changes: bool
    state: dict[str, Any]
    command: str
    """It prints the state."""


class FixtureAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A moment as a pytest module."""

    process_id: str
    seq: int
    entries: int
    text: str


async def get_moment(visit: Visit, query: MomentQuery) -> MomentAnswer:
    """Return the state after a seq, and what changed since the seq before."""
    moments = moments_of(visit, query.id)

    def read() -> MomentAnswer:
        found = moments.at(query.seq)
        changes = [*islice(differences(found.earlier, found.after), _CHANGES_MAX + 1)]
        return MomentAnswer(
            process_id=query.id, partition=moments.partition, seq=found.seq, first_seq=found.first_seq,
            last_seq=found.last_seq, behind=found.behind, offset=found.after.offset,
            time=time_text(found.after.updated_us), entries=_entries(moments, found), changes=changes[:_CHANGES_MAX],
            has_more_changes=len(changes) > _CHANGES_MAX, state=state_json(found.after),
            command=state_command(query.id, found.seq),
        )  # fmt: skip

    return await visit.parts.in_thread(read)


async def show_moment(visit: Visit, query: MomentQuery) -> Response:
    """Show the moment. While a long history is read for the first time, show that instead."""
    moments = moments_of(visit, query.id)
    values = await _soon(visit, moments, query)
    template = "process/reading.html" if values is None else "process/moment.html"
    return await tab_page(visit, template, query.id, query=query, **(values or {}))


async def _soon(visit: Visit, moments: ProcessMoments, query: MomentQuery) -> dict[str, Any] | None:
    """Return what the page shows; None if that takes too long. The reading goes on, and the next request has it."""
    if moments.is_reading:
        return None
    work = asyncio.ensure_future(visit.parts.in_thread(_shown, moments, query.seq))
    await asyncio.wait({work}, timeout=_WAIT_S)
    if not work.done():
        work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # the next request has it too
        if moments.is_reading:
            return None
    return await work


def _shown(moments: ProcessMoments, seq: int | None) -> dict[str, Any]:
    found = moments.at(seq)
    parent = found.after.lineage
    return {
        "found": found, "entries": _entries(moments, found), "sections": state_tree(found.earlier, found.after),
        "command": state_command(moments.process_id, found.seq), "time": time_text(found.after.updated_us),
        "parent": None if parent.parent_id is None else (parent.parent_id, parent.parent_seq),
    }  # fmt: skip


def _entries(moments: ProcessMoments, found: Moment) -> list[MomentEntry]:
    return [_entry(one, moments.partition) for one in found.entries]


def _entry(one: JudgedEntry, partition: int) -> MomentEntry:
    facts = entry_facts(one.logged, partition, one.verdict)
    return MomentEntry(
        offset=facts["offset"], seq=facts["seq"], epoch=facts["epoch"], kind=facts["kind"], time=facts["time"],
        actor=facts["actor"], verdict=facts["verdict"],
        summary=shortened(str(entry_row({**facts, "verdict": None})[-1]), _SUMMARY_CHARACTERS),
    )  # fmt: skip


def moments_of(visit: Visit, process_id: str) -> ProcessMoments:
    """Return the moments of a process. Raises ``InvalidName``."""
    named_process_key(process_id)
    return visit.parts.moments.of(process_id)


def state_command(process_id: str, seq: int) -> str:
    """Return the command that prints the state after a seq; 0: as of now.

    >>> state_command("a b", 7), state_command("-x", 0)
    ("seekpoint state --at-seq 7 'a b'", 'seekpoint state -- -x')
    """
    place = f" --at-seq {seq}" if seq else ""
    if process_id == pasted(process_id):
        return f"seekpoint state {pasted(process_id)}{place}"
    return f"seekpoint state{place} {pasted(process_id)}"


# --- copies -----------------------------------------------------------------------------------------------------------
async def get_fixture(visit: Visit, query: MomentQuery) -> FixtureAnswer:
    """Return a pytest module that has the process as it was after a seq."""
    moments = moments_of(visit, query.id)

    def write() -> FixtureAnswer:
        found = moments.at(query.seq)
        if found.seq == 0:
            raise BadRequest(
                409, "NothingToCopy", f"no owner of {query.id} has written anything", "a signal is sent with Node.send"
            )
        entries = moments.entries_until(found.seq, _ENTRIES_MAX)
        limits, version = visit.parts.target.log.limits, visit.parts.version
        text = None if entries is None else fixture_text(query.id, entries, found.after, limits, version)
        if entries is None or text is None or len(text) > _TEXT_CHARACTERS_MAX:
            raise BadRequest(
                409, "TooLong", f"the history of {query.id} up to seq {found.seq:,} is too long for a text",
                f"seekpoint export {pasted(query.id)} FILE, then seekpoint replay-check --history FILE",
                {"seq": found.seq, "entries_max": _ENTRIES_MAX, "characters_max": _TEXT_CHARACTERS_MAX},
            )  # fmt: skip
        return FixtureAnswer(process_id=query.id, seq=found.seq, entries=len(entries), text=text)

    return await visit.parts.in_thread(write)


# --- verification -----------------------------------------------------------------------------------------------------
async def verify_states(visit: Visit, query: ProcessIdQuery) -> Refold:
    """Compare every stored state of a process with a fold of its log."""
    moments, target = moments_of(visit, query.id), visit.parts.target
    if not visit.parts.moments.verifying.acquire(blocking=False):
        message = "another verification is under way; each reads a whole log"
        raise BadRequest(409, "VerificationRunning", message, "try again in a moment")
    try:
        return await visit.parts.in_thread(refold, target, moments)
    finally:
        visit.parts.moments.verifying.release()


PAGES = (WebPage(path="/time-machine", show=show_moment, query=MomentQuery, tab="Time machine"),)
OPERATIONS = (
    Operation(
        path="/api/moment", summary="Return the state of a process after a seq, and what changed there.",
        call=get_moment, query=MomentQuery, answer=MomentAnswer, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/fixture", summary="Return a moment of a process as a pytest module.", call=get_fixture,
        query=MomentQuery, answer=FixtureAnswer, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/verification", summary="Compare the stored states of a process with a fold of its log.",
        call=verify_states, query=ProcessIdQuery, answer=Refold, raises=(404, 409, 410),
    ),
)  # fmt: skip
