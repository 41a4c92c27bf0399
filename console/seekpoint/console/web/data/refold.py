"""Compare the stored states of a process with a fold of its log: the view's, the newest checkpoint's, the console's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seekpoint.console.web.data.state_diff import StateDifference, differences
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import UnknownProcess
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import State, new_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.data.moments import ProcessMoments
    from seekpoint.consumers.recovery.base_search import Base, Search
    from seekpoint.schemas.log.log_ports import Watermarks


class ComparedState(FrozenStruct, frozen=True, kw_only=True):
    """A stored state beside the fold of the log up to the same offset."""

    where: str
    """``view``, ``checkpoint``, or ``console``: what the console keeps for this page."""
    agrees: bool
    seq: int
    offset: int
    """The states are as of everything below this offset."""
    hash: str
    """Of the stored state."""
    folded_hash: str
    first_difference: StateDifference | None = None
    """``left`` is what is stored, ``right`` what the log says. None although the states differ: the difference is of a
    kind that this version does not show."""


class Refold(FrozenStruct, frozen=True, kw_only=True):
    """The comparison of a process's stored states with a fold of the log."""

    process_id: str
    agrees: bool
    compared: list[ComparedState]
    missing: dict[str, str]
    """The stored states that could not be compared, and why."""
    log_start: int
    log_end: int
    begins_at: str
    """``log``: the whole history was folded. ``checkpoint``: its beginning was deleted, so the fold begins there."""
    entries: int
    """How many entries of the process were folded."""


class _Stored(NamedTuple):
    where: str
    state: State
    stop: int


def refold(target: CommandTarget, moments: ProcessMoments) -> Refold:
    """Fold the whole log of a process, and compare every stored state on the way. Blocks; reads the log once.

    Raises ``UnknownProcess``, and ``JournalGap`` if the log was trimmed and no checkpoint can be used.
    """
    from seekpoint.consumers.log_reading.scan import scan
    from seekpoint.consumers.recovery.base_search import Search

    process_id, log = moments.process_id, target.log
    key = process_key(process_id)
    partition = partition_of(key, log.partitions)
    finder = target.recoverer.base_finder
    search = Search(process_id, key, partition)
    finder.query_view(search, force=True)
    kept = moments.state()  # the end of the log is asked for behind all states, so that it has what they have
    marks = log.watermarks(partition)
    stored, missing = [], dict[str, str]()
    checkpoint = _found("checkpoint", finder.from_index, search, marks, missing)
    start = _start(moments, checkpoint, marks)
    for where, base in (("view", _found("view", finder.from_view, search, marks, missing)), ("checkpoint", checkpoint)):
        if base is not None and _is_before(base, kept):
            missing[where] = "it has not come to the process yet"
        elif base is not None and start.at == "checkpoint" and base.seek_point <= start.offset:
            missing[where] = "the fold begins with it, because the log's beginning was deleted"
        elif base is not None:
            stored.append(_Stored(where, base.state, base.seek_point))
    stored.append(_Stored("console", kept, kept.offset + 1))
    compared, drafts, at, entries = list[ComparedState](), {key: start.state.thaw()}, start.offset, 0
    for one in sorted(stored, key=lambda each: each.stop):
        if one.stop > at:
            stats = scan(log, partition, drafts, at, one.stop)
            at, entries = one.stop, entries + stats.applied.get(key, 0)
        compared.append(_compared(one, drafts[key].snapshot()))
    if kept.first_offset is None:
        raise UnknownProcess("no such process", journal=log.name, process_id=process_id)
    return Refold(
        process_id=process_id, agrees=all(one.agrees for one in compared), compared=compared, missing=missing,
        log_start=marks.low, log_end=marks.high, begins_at=start.at, entries=entries,
    )  # fmt: skip


def _is_before(base: Base, kept: State) -> bool:
    """Return whether the process begins behind what the stored state is as of. Else it should know the process."""
    first = kept.first_offset
    return base.state.first_offset is None and (first is None or base.seek_point <= first)


class _Start(NamedTuple):
    at: str
    state: State
    offset: int


def _start(moments: ProcessMoments, checkpoint: Base | None, marks: Watermarks) -> _Start:
    """Return where the fold begins. A checkpoint is trusted only where the log has nothing else."""
    if moments.is_whole or checkpoint is None:
        return _Start("log", new_state(), marks.low)
    return _Start("checkpoint", checkpoint.state, checkpoint.seek_point)


def _found(
    where: str,
    look_up: Callable[[Search, Watermarks], Base],
    search: Search,
    marks: Watermarks,
    missing: dict[str, str],
) -> Base | None:
    from seekpoint.consumers.recovery.base_search import Unusable
    from seekpoint.schemas.errors import LogDamaged

    try:
        return look_up(search, marks)
    except Unusable as exc:
        missing[where] = exc.reason
    except LogDamaged as exc:
        missing[where] = exc.message
    return None


def _compared(one: _Stored, folded: State) -> ComparedState:
    agrees = one.state.hash == folded.hash
    first = None if agrees else next(differences(*_alike(one.state, folded)), None)
    return ComparedState(
        where=one.where, agrees=agrees, seq=one.state.seq, offset=one.stop, hash=one.state.hash,
        folded_hash=folded.hash, first_difference=first,
    )  # fmt: skip


def _alike(stored: State, folded: State) -> tuple[State, State]:
    """Return both states, of a finished process as their gravestones: a view may have dropped the content already."""
    if stored.finished and folded.finished:
        return stored.without_content(), folded.without_content()
    return stored, folded
