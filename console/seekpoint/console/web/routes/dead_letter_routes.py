"""The dead letters of the journal: a list of the newest first, and one of them with its bytes and what they may say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta

from seekpoint.console.services.facts.dead_letter_facts import hex_lines, letter_facts, place_in, readable_part
from seekpoint.console.web.data.letter_index import LetterHead, head_of
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.wire.partial_entry import PartialEntry

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.consumers.recovery.dead_letters import DeadLetter

__all__ = ["OPERATIONS", "PAGES"]


class LettersQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choice of dead letters for a list."""

    text: str | None = None
    """Only those whose place, key or error has this text, in any case."""
    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """So many of them, the newest ones, are left out."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200

    def address(self, skip: int) -> str:
        """Return the address of another page of the same list."""
        given = {"text": self.text, "limit": self.limit, "skip": skip}
        return "/dead-letters?" + urlencode({name: value for name, value in given.items() if value is not None})


class LetterList(FrozenStruct, frozen=True, kw_only=True):
    """A page of dead letters, the newest first."""

    journal: str
    total: int
    """How many the query finds among the newest 10,000."""
    all: int
    """How many the journal has."""
    letters: list[LetterHead]


class LetterQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One dead letter."""

    place: Annotated[str, Meta(min_length=3, max_length=600)]
    """``TOPIC:PARTITION:OFFSET``, as the list has it, or ``PARTITION:OFFSET``."""


class LetterAnswer(FrozenStruct, frozen=True, kw_only=True):
    """A dead letter."""

    letter: dict[str, Any]
    """As ``seekpoint dlq show --json`` has it, with its bytes in base64."""
    readable: PartialEntry


async def show_letters(visit: Visit, query: LettersQuery) -> Response:
    """Show a page of the list."""
    found = await list_letters(visit, query)
    behind = query.skip + query.limit
    return visit.parts.templates.page(
        visit, "pipeline/dead_letters.html", query=query, found=found,
        previous=None if query.skip == 0 else query.address(max(0, query.skip - query.limit)),
        following=None if behind >= found.total else query.address(behind),
    )  # fmt: skip


async def list_letters(visit: Visit, query: LettersQuery) -> LetterList:
    """Return a page of the dead letters."""
    heads, total = await visit.parts.in_thread(visit.parts.letters.newest)
    if query.text is not None:
        wanted = query.text.casefold()
        heads = [one for one in heads if wanted in f"{one.place}\n{one.key}\n{one.error}".casefold()]
    return LetterList(
        journal=visit.parts.target.settings.journal, total=len(heads), all=total,
        letters=heads[query.skip : query.skip + query.limit],
    )  # fmt: skip


async def show_letter(visit: Visit, query: LetterQuery) -> Response:
    """Show one dead letter."""
    letter, readable = await _letter(visit, query.place)
    return visit.parts.templates.page(
        visit, "pipeline/dead_letter.html", letter=head_of(letter), error=letter.error, readable=readable,
        lines=hex_lines(letter.value or b""),
    )  # fmt: skip


async def get_letter(visit: Visit, query: LetterQuery) -> LetterAnswer:
    """Return one dead letter with its bytes."""
    letter, readable = await _letter(visit, query.place)
    return LetterAnswer(letter=letter_facts(letter), readable=readable)


async def _letter(visit: Visit, place: str) -> tuple[DeadLetter, PartialEntry]:
    target = visit.parts.target
    found = place_in(place, target.settings.topic_name("journal"))
    if found is None:
        raise BadRequest(400, "BadQuery", "place is TOPIC:PARTITION:OFFSET or PARTITION:OFFSET")

    def read() -> tuple[DeadLetter, PartialEntry] | None:
        letter = target.dead_letters.get(found)
        return None if letter is None else (letter, readable_part(target, letter))

    read_letter = await visit.parts.in_thread(read)
    if read_letter is None:
        raise BadRequest(404, "UnknownDeadLetter", "there is no dead letter of this record", "see the list")
    return read_letter


PAGES = (
    WebPage(path="/dead-letters", show=show_letters, query=LettersQuery, nav="Dead letters"),
    WebPage(path="/dead-letter", show=show_letter, query=LetterQuery),
)
OPERATIONS = (
    Operation(
        path="/api/dead-letters", summary="List the dead letters, the newest first.", call=list_letters,
        query=LettersQuery, answer=LetterList,
    ),
    Operation(
        path="/api/dead-letter", summary="Return a dead letter with its bytes.", call=get_letter, query=LetterQuery,
        answer=LetterAnswer, raises=(404,),
    ),
)  # fmt: skip
