"""The names of a thread's things in the journal: its process, and the keys of the process's context."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from seekpoint.adapters.process_names import id_prefix_of, joined, process_id_of

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

_SAFE = ":|@+,;=()!*' "


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
