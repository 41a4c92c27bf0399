"""The names of a thread's things in the journal: its process, and the keys of the process's context."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote, unquote

__all__ = [
    "KEY_PARTS",
    "PAST_KEY",
    "THREAD_KEY",
    "channel_key",
    "checkpoint_key",
    "id_prefix_of",
    "joined",
    "parts_of",
    "process_id_of",
    "writes_key",
]

THREAD_KEY = "thread"
"""The context key of the thread's id, as LangGraph knows it."""
PAST_KEY = "past"
"""The context key of what the newest entry says about older checkpoints. The next entry replaces or removes it."""

KEY_PARTS = {"checkpoint": 1, "channel": 2, "writes": 3}
"""How many parts a context key has behind its kind. Other keys are not the adapter's."""

_ID_BYTES_MAX = 200
_HASH_BYTES = 16
_KEPT_MAX = _ID_BYTES_MAX - 2 * _HASH_BYTES - 1
_SAFE = ":|@+,;=()!*' "


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


@lru_cache(maxsize=4_096)
def _quoted(part: str) -> str:
    return quote(part, safe=_SAFE)


def checkpoint_key(ns: str) -> str:
    """Return the context key of the newest checkpoint of a namespace."""
    return f"checkpoint/{_quoted(ns)}"


def channel_key(ns: str, channel: str) -> str:
    """Return the context key of a channel's value."""
    return f"channel/{_quoted(ns)}/{_quoted(channel)}"


def writes_key(ns: str, checkpoint_id: str, task_id: str) -> str:
    """Return the context key of the writes of one task that are stored with a checkpoint."""
    return f"writes/{_quoted(ns)}/{_quoted(checkpoint_id)}/{_quoted(task_id)}"


def parts_of(key: str) -> list[str]:
    """Return what a context key was made of: its kind first.

    >>> parts_of(writes_key("a/b:1", "c", "t"))
    ['writes', 'a/b:1', 'c', 't']
    """
    return [unquote(part) for part in key.split("/")]
