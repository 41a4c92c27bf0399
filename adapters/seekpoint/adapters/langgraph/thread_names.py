"""The names of a thread's things in the journal: its process, and the keys of the process's context."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote, unquote

__all__ = [
    "PAST_KEY",
    "THREAD_KEY",
    "channel_key",
    "checkpoint_key",
    "parts_of",
    "process_id_of",
    "writes_key",
]

THREAD_KEY = "thread"
"""The context key of the thread's id, as LangGraph knows it."""
PAST_KEY = "past"
"""The context key of what the newest entry says about older checkpoints. The next entry replaces or removes it."""

_ID_BYTES_MAX = 200
_HASH_BYTES = 16
_SAFE = ":|@+,;=()!*' "


def process_id_of(thread_id: str, prefix: str) -> str:
    """Return the id of the process that keeps a thread. A long one is cut, and ends with a hash of the whole.

    >>> process_id_of("user 7/chat", "langgraph")
    'langgraph/user%207%2Fchat'
    """
    name = f"{prefix}/{quote(thread_id, safe=':@+,;=')}"
    if len(name) <= _ID_BYTES_MAX:
        return name
    digest = blake2b(thread_id.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{name[: _ID_BYTES_MAX - len(digest) - 1]}~{digest}"


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
