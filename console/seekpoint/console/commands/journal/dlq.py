"""``seekpoint dlq ls | show``: show dead letters, the records that are not entries."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.dead_letters import DeadLetter

from seekpoint.console.services.options import AsJson, Wide

__all__ = ["hex_lines", "letter_facts", "place_of"]

_COLUMNS = (
    Column("place"),
    Column("key", cut=True),
    Column("bytes", right=True),
    Column("seen at", wide=True),
    Column("error", wraps=True),
)
_HEX_BYTES_MAX = 4_096
_HEX_WIDTH = 16
_KEY_BYTES_MAX = 200
"""How much of a key is shown. A key that is not a process id may have any length."""


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
    """Show a dead letter and its bytes."""
    from seekpoint.schemas.errors import SeekpointError

    place = place_of(coord, target.settings.topic_name("journal"))
    letter = target.dead_letters.get(place)
    if letter is None:
        raise SeekpointError(f"no such dead letter: {place}", hint="seekpoint dlq ls")
    if json:
        emit_json(letter_facts(letter))
        return
    for line in _lines(letter):
        emit(clean(line))


def letter_facts(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter as plain data, with its bytes in base64."""
    texts = {"key": _base64(letter.key), "value": _base64(letter.value)}
    return {"place": letter.place, **asdict(letter), **texts}


def place_of(coord: str, topic: str) -> str:
    """Parse the place of a record as ``TOPIC:PARTITION:OFFSET``. Raises ``BadParameter``.

    >>> place_of("3:17", "fleet.journal")
    'fleet.journal:3:17'
    """
    *names, partition, offset = ["", *coord.split(":")] if ":" in coord else ["", "", ""]
    if not (partition.isdecimal() and offset.isdecimal()):
        raise typer.BadParameter(f"{coord!r} is not TOPIC:PARTITION:OFFSET", param_hint="COORD")
    return f"{':'.join(filter(None, names)) or topic}:{int(partition)}:{int(offset)}"


def hex_lines(data: bytes) -> list[str]:
    """Return a hex dump of bytes: offset, hex, printable characters.

    >>> hex_lines(b"ab\\x00")
    ['0000  61 62 00                                         ab.']
    """
    shown = data[:_HEX_BYTES_MAX]
    lines = []
    for start in range(0, len(shown), _HEX_WIDTH):
        part = shown[start : start + _HEX_WIDTH]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:04x}  {part.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {text}")
    more = len(data) - len(shown)
    return [*lines, f"and {more} more bytes: --json prints them all"] if more else lines


def _row(letter: DeadLetter) -> list[object]:
    size = "-" if letter.value is None else len(letter.value)
    return [letter.place, _key(letter.key), size, letter.seen_at, letter.error]


def _lines(letter: DeadLetter) -> list[str]:
    head = {
        "place": letter.place,
        "error": letter.error,
        "key": _key(letter.key),
        "written": f"{letter.timestamp_ms} ms since 1970",
        "seen": letter.seen_at,
        "value": "none" if letter.value is None else f"{len(letter.value)} bytes",
    }
    return [f"{name:<9}{value}" for name, value in head.items()] + hex_lines(letter.value or b"")


def _key(key: bytes | None) -> str:
    return "none" if key is None else key[:_KEY_BYTES_MAX].decode(errors="backslashreplace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
