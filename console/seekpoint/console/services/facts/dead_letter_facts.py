"""Facts about a dead letter, for the command and the web console: place, bytes, and what can be read of them."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.recovery.dead_letters import DeadLetter
    from seekpoint.schemas.wire.partial_entry import PartialEntry

_HEX_BYTES_MAX = 4_096
_HEX_WIDTH = 16
_KEY_BYTES_MAX = 200
"""How much of a key is shown. A key that is not a process id may have any length."""


def letter_facts(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter as plain data, with its bytes in base64."""
    texts = {"key": _base64(letter.key), "value": _base64(letter.value)}
    return {"place": letter.place, **asdict(letter), **texts}


def readable_part(target: CommandTarget, letter: DeadLetter) -> PartialEntry:
    """Return what can be read of the letter's value."""
    from seekpoint.schemas.log.manifest import writer_schemas
    from seekpoint.schemas.wire.partial_entry import partial_entry

    return partial_entry(letter.value, writer_schemas(target.log.table("schemas").items()))


def place_in(coord: str, topic: str) -> str | None:
    """Return the place that ``TOPIC:PARTITION:OFFSET`` or ``PARTITION:OFFSET`` names; None for another text.

    >>> place_in("3:17", "fleet.journal"), place_in("fleet.journal#r:3:17", ""), place_in("3", "fleet.journal")
    ('fleet.journal:3:17', 'fleet.journal#r:3:17', None)
    """
    *names, partition, offset = ["", *coord.split(":")] if ":" in coord else ["", "", ""]
    if not all(number.isascii() and number.isdecimal() and len(number) < 20 for number in (partition, offset)):
        return None
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


def key_text(key: bytes | None) -> str:
    """Return the key of a record as text, shortened; bytes that are no UTF-8 are escaped."""
    return "none" if key is None else key[:_KEY_BYTES_MAX].decode(errors="backslashreplace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
