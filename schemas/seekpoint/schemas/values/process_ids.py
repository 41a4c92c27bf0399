"""The rules for process ids in the public API, and the characters that are invisible.

The format allows any 1 to 200 bytes of UTF-8 without control characters (``process_key``), and readers accept every
record with such an id. The public API (nodes, recoveries, views, commands) is stricter: two ids that look alike must
not be two processes.
"""

from __future__ import annotations

import re

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import InvalidName

INVISIBLE = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Invisible characters, and those that change the direction of a text, for a class of a regular expression.

They are Unicode's format characters, line separators, default ignorable characters, and letters without a glyph.
"""

_INVISIBLE_OR_BLANK = f"[{INVISIBLE}\xa0\u2000-\u200a\u202f\u205f\u3000]"
"""Invisible characters, and blanks that look like a space."""


def pasted(*texts: object) -> str:
    """Return ids, keys or paths as people may paste them into a shell: one argument each, and never an option.

    Each command that an error or a page advises writes with it what it names (``tests/scripts/test_pasted_hints.py``).
    """
    from shlex import quote

    quoted = [quote(str(text)) for text in texts]
    return " ".join(["--", *quoted] if any(str(text).startswith("-") for text in texts) else quoted)


def named_process_key(process_id: str) -> bytes:
    """Return the Kafka key of a process id from a user. Raises ``InvalidName`` with the id to use, if there is one.

    Beyond the rules of ``process_key``, the id must be in Unicode's normal form C, have no invisible character (joiners
    and variation selectors are such) and not consist of blanks only.
    """
    key = process_key(process_id)
    if process_id.isascii():
        if process_id.isspace():
            raise InvalidName("a process id must not consist of blanks only", process_id=process_id)
        return key
    import unicodedata

    invisible = re.search(_INVISIBLE_OR_BLANK, process_id)
    if invisible is not None:
        raise InvalidName(
            "a process id must not have invisible characters",
            process_id=ascii(process_id[:60]),
            character=f"U+{ord(invisible[0]):04X}",
            hint=f"leave it out: {re.sub(_INVISIBLE_OR_BLANK, '', process_id)}",
        )
    normal = unicodedata.normalize("NFC", process_id)
    if normal != process_id:
        raise InvalidName(
            "a process id must be in Unicode's normal form C",
            process_id=ascii(process_id[:60]),
            normal=ascii(normal[:60]),
            hint=f"use {normal}",
        )
    return key
