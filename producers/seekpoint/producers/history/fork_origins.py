"""Find the process and the state that a fork begins with, also where the moment lies before its parent was forked.

A fork has no entries from before its own beginning: these are its parent's. So the moment before a call that a fork
inherited is looked for in its parent, up to the seq at which it was forked, and in that one's parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import field

from seekpoint.producers.durable.replay.recorded_run import Admission, EndedCall
from seekpoint.schemas.bodies import Deleted
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.process_state import State

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.history.history_points import HistoryPoint
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.config.limits import Limits


class ReadHistory(FrozenStruct, frozen=True):
    """The history of a process, read already."""

    entries: Sequence[Logged]
    """All its entries."""
    ended: Sequence[EndedCall] | None = None
    """The ends of all its calls, if the history was folded."""


class Origin(FrozenStruct, frozen=True, kw_only=True):
    """A process at a moment of its past."""

    process_id: str
    state: State
    stop_seq: int | None = None
    """The seq at which the next one of ``forks`` left it; None if there is none."""
    forks: tuple[Origin, ...] = field(default_factory=tuple)
    """The forks that lead from it to the process that was named, each as it began."""
    history: ReadHistory | None = None
    """Its history, if it was read."""


async def origin_of(
    runtime: NodeRuntime, process_id: str, point: HistoryPoint | None, history: ReadHistory | None = None
) -> Origin:
    """Return the process, or the one of its parents, that has the moment ``point``; None: as it is now.

    ``history`` is that of the process, if it was read. Raises what a recovery raises, and ``Refused`` for a moment that
    none of them has. A seq is the process's own.
    """
    recover = runtime.recovery.recover
    if point is None or point.kind == "seq":
        at_seq = None if point is None else point.at
        state = (await recover(process_id, at_seq=at_seq, must_be_current=at_seq is None)).state  # type: ignore[arg-type]
        if state.content_dropped:  # the log may still have the content from before the end
            state = (await recover(process_id, at_seq=state.seq - 1)).state
        elif at_seq is not None:
            _refuse_deleted(process_id, state, (await recover(process_id, missing_ok=True)).state)
        return Origin(process_id=process_id, state=state)
    forks, stop_seq, missing = list[Origin](), None, None
    while True:
        if history is None:
            history = ReadHistory(await runtime.history(process_id))
        admission = Admission(runtime.reader.limits)
        counted = (one for one in admission.applied(history.entries) if stop_seq is None or (one.seq or 0) <= stop_seq)
        try:
            seq = point.seq_in(counted, process_id)
        except Refused as exc:
            missing = missing or exc
        else:
            is_there = point.kind == "start"  # nothing was folded behind it
            state = admission.draft.freeze() if is_there else folded(history.entries, runtime.reader.limits, seq)
            if any(isinstance(one.entry.body, Deleted) for one in history.entries):
                _refuse_deleted(process_id, state, folded(history.entries, runtime.reader.limits))
            return Origin(
                process_id=process_id, state=state, stop_seq=stop_seq, forks=tuple(forks), history=history
            )  # fmt: skip
        first = folded(history.entries, runtime.reader.limits, 1)
        if first.lineage.parent_id is None:
            raise missing
        forks.insert(0, Origin(process_id=process_id, state=first, stop_seq=stop_seq, history=history))
        process_id, stop_seq, history = first.lineage.parent_id, first.lineage.parent_seq, None


def _refuse_deleted(process_id: str, past: State, now: State) -> None:
    """Raise ``Refused`` if the process was deleted after the moment of ``past``."""
    if past.seq < now.deleted_seq:
        raise Refused(
            "the process was deleted after this moment: nothing brings its content back", process_id=process_id,
            seq=past.seq, found=now.deleted_seq, hint="choose a moment after the deletion",
        )  # fmt: skip


def folded(history: Iterable[Logged], limits: Limits, seq: int | None = None) -> State:
    """Return the state after the entry with this seq; None: after all of them."""
    admission = Admission(limits)
    for one in history:
        if admission.admits(one.offset, one.entry) and one.entry.seq == seq is not None:
            break
    return admission.draft.freeze()
