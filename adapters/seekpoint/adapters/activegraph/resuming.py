"""Going on with a run whose program has ended in the middle of a behavior.

``Runtime.load`` begins no behavior again that had begun: its work would be lost. So the events that the newest event's
behaviors had written are truncated, and the behaviors are called again with the same ids and the same prompts. What the
journal has of the calls of models, tools and embeddings, truncated events included, answers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from activegraph.core.event import Event
from activegraph.llm.cache import LLMCache
from activegraph.llm.embedding_cache import EmbeddingCache
from activegraph.runtime.runtime import Runtime
from activegraph.tools.cache import ToolCache

from seekpoint.errors import Refused

if TYPE_CHECKING:
    from seekpoint.adapters.activegraph.journal_runs import SeekpointRuns

_STARTED = frozenset({"behavior.started", "relation_behavior.started"})


def resumed(runs: SeekpointRuns, run_id: str, options: dict[str, Any]) -> Runtime:
    """Return the runtime of a run, with what was under way in its queue again."""
    store = runs.store(run_id)
    kept = last_event_before_unfinished_work(list(store.iter_events()))
    if kept is not None:
        store.truncate_after(kept)
    cached = {"replay_llm_cache": True, "replay_tool_cache": True, "replay_embedding_cache": True}
    runtime = Runtime.load(runs.path, run_id, **{**options, **cached})
    recorded = [*_apart(store.dropped_events()), *runtime.graph.events]
    # ActiveGraph fills the caches of a loaded runtime from the events of its run alone.
    runtime._llm_cache = LLMCache.from_events(recorded)
    runtime._tool_cache = ToolCache.from_events(recorded)
    runtime._embedding_cache = EmbeddingCache.from_events(recorded)
    return runtime


def last_event_before_unfinished_work(events: Sequence[Event]) -> str | None:
    """Return the id of the event behind which the newest event's behaviors have written; None: nothing is unfinished.

    A runtime calls all behaviors of an event before it takes the next one, and writes ``runtime.idle`` once none is
    left. The log does not say whether the newest event has further behaviors: so all of them are called again. Raises
    ``Refused`` if a behavior is unfinished and somebody else has written behind its beginning.
    """
    begin, event_id = _newest_work(events)
    if not begin:
        return None
    tail, own = events[begin:], {event_id}
    for event in tail:
        if event.caused_by not in own and event.type != "approval.proposed":
            _refuse_unfinished(tail, event)
            return None
        own.add(event.id)
    return events[begin - 1].id


def _newest_work(events: Sequence[Event]) -> tuple[int, str]:
    """Return where the behaviors of the newest event that has some begin to write, and its id; 0: nowhere."""
    begin, newest = 0, ""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.type == "runtime.idle":
            break
        if event.type in _STARTED:
            newest = newest or event.payload["event_id"]
            begin = index if event.payload["event_id"] == newest else begin
    while begin and events[begin - 1].caused_by == newest:  # such as pattern.matched
        begin -= 1
    return begin, newest


def _refuse_unfinished(tail: Sequence[Event], other: Event) -> None:
    started = sum(event.type in _STARTED for event in tail)
    ended = sum(event.type.endswith((".completed", ".failed")) for event in tail)
    if started > ended:
        raise Refused(
            "the run has events behind a behavior that is not finished, so the behavior cannot be called again",
            found=f"{other.id}, {other.type}", hint="Runtime.load(runs.path, run_id) goes on without it",
        )  # fmt: skip


def _apart(tails: Iterable[Sequence[Event]]) -> list[Event]:
    """Return truncated events under ids of their own: after a truncation a run uses the same ids again."""
    return [
        Event(
            id=f"{number}/{event.id}", type=event.type, payload=event.payload, actor=event.actor,
            frame_id=event.frame_id, caused_by=f"{number}/{event.caused_by}", timestamp=event.timestamp,
        )
        for number, tail in enumerate(tails)
        for event in tail
    ]  # fmt: skip
