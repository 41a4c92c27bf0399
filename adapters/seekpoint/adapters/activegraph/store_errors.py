"""ActiveGraph's errors of a store, for what a journal refuses."""

from __future__ import annotations

from activegraph.store.errors import ConcurrentWriterError, DuplicateEventError, EventNotFoundError


def stale_writer(
    run_id: str, expected: tuple[int, str | None, int], actual: tuple[int, str | None, int]
) -> ConcurrentWriterError:
    """Return the error of a writer that expected another newest event: each side is its number, its id, the count."""
    return ConcurrentWriterError(
        run_id=run_id, expected_head=_head(expected), actual_head=_head(actual), expected_count=expected[2],
        actual_count=actual[2], driver="seekpoint",
    )  # fmt: skip


def duplicate_event(event_id: str, run_id: str) -> DuplicateEventError:
    """Return the error of an event whose id the run has."""
    return DuplicateEventError(
        f"duplicate event id {event_id!r} in run {run_id!r}",
        what_failed=f"The journal's run {run_id!r} has an event with the id {event_id!r}. Nothing was written.",
        why="An id names one event of a run: causes, replays and forks refer to it.",
        how_to_fix="Take ids from the graph's generator, and do not append an event that was accepted before.",
        context={"event_id": event_id, "run_id": run_id, "driver": "seekpoint"},
    )


def event_not_found(event_id: str, run_id: str) -> EventNotFoundError:
    """Return the error of an id that no event of the run has."""
    return EventNotFoundError(
        f"event {event_id!r} not found in run {run_id!r}",
        what_failed=f"The journal's run {run_id!r} has no event with the id {event_id!r}.",
        why="An unknown id is no place in a run: a default would be another history than the caller meant.",
        how_to_fix="Look the id up: runtime.graph.events has those of the run. It may be of another run, or truncated.",
        context={"event_id": event_id, "run_id": run_id, "driver": "seekpoint"},
    )


def archived_event(event_id: str, run_id: str) -> EventNotFoundError:
    """Return the error of a fork at an event that is in the archive."""
    return EventNotFoundError(
        f"event {event_id!r} of run {run_id!r} is archived below the compaction horizon",
        what_failed=f"Run {run_id!r} cannot be forked at {event_id!r}: a compaction has archived the event.",
        why="A fork begins with the events up to its place, and a compacted run begins with its snapshot.",
        how_to_fix="Fork at the snapshot's event or at a later one.",
        context={"run_id": run_id, "at_event": event_id, "archived": True, "driver": "seekpoint"},
    )


def _head(side: tuple[int, str | None, int]) -> str | None:
    number, event_id, _ = side
    return None if number == 0 else f"{event_id or 'archived'} (number {number})"
