"""The ids of the processes that an adapter makes of a framework's names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import quote

from seekpoint.errors import InvalidName
from seekpoint.schemas.values.process_ids import named_process_key

_ID_BYTES_MAX = 200
_HASH_BYTES = 16
_HASHED = re.compile(r".*~[0-9a-f]{32}", re.DOTALL).fullmatch
_KEPT_MAX = _ID_BYTES_MAX - 2 * _HASH_BYTES - 1


def joined(labels: Sequence[str]) -> str:
    """Return labels as one text, from which each can be read again.

    >>> joined(["user 7/chat", "notes"])
    'user%207%2Fchat/notes'
    """
    return "/".join(quote(label, safe=":@+,;=", errors="surrogatepass").replace("~", "%7E") for label in labels)


def process_id_of(quoted: str, prefix: str) -> str:
    """Return the id of the process with a quoted name. A long one is cut, and ends with a hash of the whole.

    No other name has this id: a quoted name has no ``~``.
    """
    name = f"{prefix}/{quoted}"
    if len(name) <= _ID_BYTES_MAX:
        return name
    digest = blake2b(quoted.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{name[:_KEPT_MAX]}~{digest}"


def id_prefix_of(quoted: str, prefix: str) -> str:
    """Return what the ids begin with of all processes whose quoted names begin with ``quoted``."""
    return f"{prefix}/{quoted}"[:_KEPT_MAX]


def id_of_text(text: str, prefix: str) -> str:
    """Return the id of the process of any text: ``prefix`` and the text, or a hash of it where no id is like that.

    No other text has this id: a text that looks like a hashed one is hashed too.

    >>> id_of_text("Grün 7", "session/")
    'session/Grün 7'
    >>> id_of_text("line\\n2", "session/")
    'session/line%0A2~02e6ba343c3ee16742f50aad5b6ee100'
    """
    try:
        named_process_key(prefix + text)
        if not _HASHED(text):
            return prefix + text
    except InvalidName:
        pass
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
    kept = max(_KEPT_MAX - len(prefix.encode("utf-8", "replace")), 0)
    return f"{prefix}{joined([text])[:kept]}~{digest}"
