"""Recovery of the processes of a partition that have not finished, at a cost that the finished ones do not raise.

    the view's index of open processes, or the heads of unfinished checkpoints
      + the keys of the entries that came later   ──> one recovery of all of them, with one scan

Without a view and without a floor, every process is read once. ``open_states`` recovers only the processes whose
summary is wanted. It reads their summaries in the view, and keeps a limited number of states in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from seekpoint.consumers.log_reading.leader_epochs import refuse_truncated
from seekpoint.consumers.recovery.base_finder import view_problem
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.consumers.view.process_summary import Summary, is_open_process, summary_of
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import (
    InvalidName,
    JournalGap,
    JournalMismatch,
    LogTruncated,
    NewerFormat,
    ViewRefused,
    ViewUnavailable,
)
from seekpoint.schemas.log.log_ports import Landmark, Watermarks
from seekpoint.schemas.state.process_state import State

__all__ = ["open_states", "recover_open"]

_PAGE = 1_000
_STATES_MAX = 2_000
"""How many states ``open_states`` recovers at once, if it knows which."""


def recover_open(recoverer: Recoverer, partition: int) -> dict[str, Recovered]:
    """Return the states of the unfinished processes of ``partition``. Blocks. Raises what a recovery raises.

    A process that begins while this reads may be missing: the caller follows the partition from before the call.
    """
    keys = _open_keys(recoverer, partition, _every, _ignore)
    if keys is not None and not keys:
        return {}
    process_ids = None if keys is None else sorted(key.decode() for key in keys)
    found = recoverer.recover_partition(partition, process_ids)
    return {process_id: one for process_id, one in found.items() if one.known and not one.state.finished}


def open_states(
    recoverer: Recoverer,
    partition: int,
    wants: Callable[[Summary], bool],
    on_no_view: Callable[[str], object],
) -> Iterator[tuple[str, State]]:
    """Yield the unfinished processes of ``partition`` whose summary ``wants`` accepts, by id. Blocks.

    The states are as of now, also where the view is behind. Shared values are left out. Without a usable view,
    ``on_no_view`` receives the reason; then all unfinished processes are recovered. Raises what a recovery raises.
    """
    keys = _open_keys(recoverer, partition, wants, on_no_view)
    process_ids = None if keys is None else sorted(key.decode() for key in keys)
    for some in _chunks(process_ids):
        found = recoverer.recover_partition(partition, some)
        for process_id in sorted(found):
            one, key = found.pop(process_id), process_id.encode()
            if one.known and is_open_process(key, one.state) and wants(summary_of(partition, key, one.state)):
                yield process_id, one.state


def _chunks(process_ids: list[str] | None) -> Iterator[list[str] | None]:
    if process_ids is None:
        yield None
        return
    for start in range(0, len(process_ids), _STATES_MAX):
        yield process_ids[start : start + _STATES_MAX]


def _every(one: Summary) -> bool:
    return True


def _ignore(why: str) -> None:
    """Do nothing about the reason: the recoveries that follow log it."""


def _open_keys(
    recoverer: Recoverer, partition: int, wants: Callable[[Summary], bool], on_no_view: Callable[[str], object]
) -> Set[bytes] | None:
    """Return the processes that may be open and wanted; None if nothing tells, so that all have to be read."""
    try:
        return _from_view(recoverer, partition, wants)
    except _NoViewError as exc:
        on_no_view(exc.why)
    return _from_checkpoints(recoverer, partition)


class _NoViewError(Exception):
    """The view of the partition cannot be used. ``why`` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _from_view(recoverer: Recoverer, partition: int, wants: Callable[[Summary], bool]) -> Set[bytes]:
    """Return the open processes of the view's index that are wanted, and all with later entries."""
    view = recoverer.base_finder.view
    if view is None:
        raise _NoViewError("the settings name no Redis")
    keys: set[bytes] = set()
    first, after = None, b""
    try:
        while True:
            meta, summaries = view.page(partition, after, b"", _PAGE, open_only=True)
            first = first or meta
            if first is None or meta is None or meta.token != first.token:
                raise _NoViewError(f"partition {partition} has no view, or it is being rebuilt")
            keys.update(one.process_id.encode() for one in summaries if wants(one))
            if len(summaries) < _PAGE:
                break
            after = summaries[-1].process_id.encode()
    except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
        raise _NoViewError(exc.message) from exc
    marks = recoverer.log.watermarks(partition)
    problem = view_problem(first, recoverer.log.topic_id, marks)
    if first.applied is None or problem is not None:
        raise _NoViewError(f"the view of partition {partition} cannot be used: {problem}")
    landmark = Landmark(first.applied, first.leader_epoch)
    later = _keys_from(recoverer, partition, first.applied + 1, marks, landmark)
    if later is None:
        raise _NoViewError(f"the view of partition {partition} is not of this log")
    return keys | later


def _from_checkpoints(recoverer: Recoverer, partition: int) -> Set[bytes] | None:
    """Return the processes with an unfinished checkpoint, or with an entry from the floor on; None without a floor."""
    index = recoverer.base_finder.index
    if index is None:
        return None
    try:
        found = index.unfinished(partition)
    except (JournalMismatch, NewerFormat):
        return None
    floor = found.floor
    if floor is None or floor.topic_id != recoverer.log.topic_id:
        return None
    marks = recoverer.log.watermarks(partition)
    later = _keys_from(recoverer, partition, floor.offset, marks, floor.landmark, found.is_finished)
    return None if later is None else found.keys | later


def _keys_from(
    recoverer: Recoverer,
    partition: int,
    start: int,
    marks: Watermarks,
    landmark: Landmark,
    is_excluded: Callable[[bytes], bool] = lambda key: False,
) -> Set[bytes] | None:
    """Return the keys of the entries from ``start`` on; None if the log is not the one of ``landmark``."""
    if not marks.low <= start <= marks.high:
        return None
    keys: set[bytes] = set()
    first = None
    try:
        for batch in recoverer.log.read(partition, start, marks.high):
            first = first or batch.first
            keys.update(key for record in batch.records if (key := record.key) is not None and _is_valid(key))
        refuse_truncated(recoverer.log, partition, (landmark,), first, marks)
    except (JournalGap, LogTruncated):
        return None
    return {key for key in keys if not is_excluded(key)}


def _is_valid(key: bytes) -> bool:
    """Whether a process may have this key. Poison may have any key."""
    try:
        process_key(key.decode())
    except (UnicodeDecodeError, InvalidName):
        return False
    return True
