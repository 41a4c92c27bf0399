"""What a process may be called by somebody who names one, and the characters that nobody sees.

The format allows any 1 to 200 bytes of UTF-8 without control characters (``process_key``), and readers take every
record that keeps to it. Whoever names a process at a public door (a node, a recovery, a view, a command) is held to
more: two ids that look alike must not be two processes.
"""

from __future__ import annotations

import re
import unicodedata

from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import InvalidName

__all__ = ["INVISIBLE", "named_process_key"]

INVISIBLE = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that show nothing, or turn the direction of a text around, for a class of a regular expression.

Unicode's format characters and line separators, what it calls default ignorable, and letters without a shape.
"""

_UNSEEN = re.compile(f"[{INVISIBLE}\xa0\u2000-\u200a\u202f\u205f\u3000]")
"""Those, and blanks that look like the space that they are not."""


def named_process_key(process_id: str) -> bytes:
    """The Kafka key of a process that somebody names. Raises ``InvalidName``, with the id to use if there is one.

    As ``process_key``; and the id is in Unicode's normal form C, has no character that nobody sees (joiners and
    variation selectors too), and is not of blanks alone.
    """
    key = process_key(process_id)
    if process_id.isascii():
        if process_id.isspace():
            raise InvalidName("a process id is not of blanks alone", process_id=process_id)
        return key
    unseen = _UNSEEN.search(process_id)
    if unseen is not None:
        raise InvalidName(
            "a process id has no invisible characters",
            process_id=ascii(process_id[:60]),
            character=f"U+{ord(unseen[0]):04X}",
            hint=f"leave it out: {_UNSEEN.sub('', process_id)}",
        )
    normal = unicodedata.normalize("NFC", process_id)
    if normal != process_id:
        raise InvalidName(
            "a process id is in Unicode's normal form C",
            process_id=ascii(process_id[:60]),
            normal=ascii(normal[:60]),
            hint=f"use {normal}",
        )
    return key
