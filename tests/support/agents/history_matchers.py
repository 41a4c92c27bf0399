"""A desk, on a history that a test writes down in a line."""

from __future__ import annotations

import asyncio
from typing import Any

from seekpoint.producers.durable.replay.history_matcher import CallPlace, HistoryMatcher
from seekpoint.schemas.state.calls import Call

__all__ = ["desk", "place", "remembered"]


def remembered(*calls: tuple[str, int] | tuple[str, int, str], **more: Any) -> dict[str, Call]:
    """A history: key and position of each call, and its digest."""
    history = {}
    for seq, (key, position, *digest) in enumerate(calls, start=1):
        facts = {"kind": "step", "digest": digest[0] if digest else "d", "status": "succeeded", "attempt": 1, **more}
        history[key] = Call(position=position, seq=seq, **facts)
    return history


def desk(records: dict[str, Call] | None = None, **options: Any) -> HistoryMatcher:
    """The process's desk, on that history; the present task is its main code."""
    return HistoryMatcher("p", records or {}, task=asyncio.current_task(), **options)


def place(on: HistoryMatcher, name: str, digest: str = "d", **more: Any) -> CallPlace:
    """Where a step of that name stands, and what is remembered of it."""
    return on.place("step", name, digest, **more)
