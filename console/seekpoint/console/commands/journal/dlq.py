"""``seekpoint dlq ls | show``: show dead letters, the records that are not entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.dead_letters import DeadLetter
    from seekpoint.schemas.wire.partial_entry import PartialEntry

from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.facts.dead_letter_facts import (
    hex_lines,
    key_text,
    letter_facts,
    place_in,
    readable_part,
)

__all__ = ["place_of"]

_COLUMNS = (
    Column("place"),
    Column("key", cut=True),
    Column("bytes", right=True),
    Column("seen at", wide=True),
    Column("error", wraps=True),
)


def ls(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> None:
    """List the journal's dead letters in the order in which readers found them."""
    letters = target.dead_letters.stream()
    if json:
        emit_json_list({"journal": target.settings.journal}, "letters", map(letter_facts, letters))
    elif not emit_table(_COLUMNS, map(_row, letters), wide=wide):
        say("no dead letters: no reader has found an undecodable record (seekpoint ps --from-log reads all records)")


def show(
    target: CommandTarget,
    coord: Annotated[
        str, typer.Argument(metavar="COORD", help="TOPIC:PARTITION:OFFSET, as ls shows it, or PARTITION:OFFSET.")
    ],
    json: AsJson = False,
) -> None:
    """Show a dead letter: its bytes, and the fields that can be read of them."""
    from seekpoint.schemas.errors import SeekpointError

    place = place_of(coord, target.settings.topic_name("journal"))
    letter = target.dead_letters.get(place)
    if letter is None:
        raise SeekpointError(f"no such dead letter: {place}", hint="seekpoint dlq ls")
    part = readable_part(target, letter)
    if json:
        emit_json({**letter_facts(letter), "readable": to_builtins(part)})
        return
    for line in [*_lines(letter), "", *_readable(part)]:
        emit(clean(line))


def place_of(coord: str, topic: str) -> str:
    """Parse the place of a record as ``TOPIC:PARTITION:OFFSET``. Raises ``BadParameter``.

    >>> place_of("3:17", "fleet.journal")
    'fleet.journal:3:17'
    """
    found = place_in(coord, topic)
    if found is None:
        raise typer.BadParameter(f"{coord!r} is not TOPIC:PARTITION:OFFSET", param_hint="COORD")
    return found


def _row(letter: DeadLetter) -> list[object]:
    size = "-" if letter.value is None else len(letter.value)
    return [letter.place, key_text(letter.key), size, letter.seen_at, letter.error]


def _lines(letter: DeadLetter) -> list[str]:
    head = {
        "place": letter.place,
        "error": letter.error,
        "key": key_text(letter.key),
        "written": f"{letter.timestamp_ms} ms since 1970",
        "seen": letter.seen_at,
        "value": "none" if letter.value is None else f"{len(letter.value)} bytes",
    }
    return [f"{name:<9}{value}" for name, value in head.items()] + hex_lines(letter.value or b"")


def _readable(part: PartialEntry) -> list[str]:
    end = [f"at byte {part.read_bytes}: {part.problem}"] if part.problem else []
    text = [] if part.text is None else [part.text]
    return [part.form, *(f"{name:<20}{value}" for name, value in part.fields), *end, *text]
