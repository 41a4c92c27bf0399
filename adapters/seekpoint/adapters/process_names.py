"""The ids of the processes that an adapter makes of a framework's names."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import quote

_ID_BYTES_MAX = 200
_HASH_BYTES = 16
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
