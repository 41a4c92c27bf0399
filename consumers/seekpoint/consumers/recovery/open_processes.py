"""Recovery of the processes of a partition that have not finished, at a cost that the finished ones do not raise.

    the view's index of open processes, or the heads of unfinished checkpoints
      + the keys of the entries that came later   ──> one recovery of all of them, with one scan

Without a view and without a floor, every process is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from seekpoint.consumers.log_reading.leader_epochs import refuse_truncated
from seekpoint.consumers.recovery.base_finder import view_problem
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
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

__all__ = ["recover_open"]

_PAGE = 1_000


def recover_open(recoverer: Recoverer, partition: int) -> dict[str, Recovered]:
    """Return the states of the unfinished processes of ``partition``. Blocks. Raises what a recovery raises.

    A process that begins while this reads may be missing: the caller follows the partition from before the call.
    """
    keys = _from_view(recoverer, partition)
    if keys is None:
        keys = _from_checkpoints(recoverer, partition)
    if keys is not None and not keys:
        return {}
    process_ids = None if keys is None else sorted(key.decode() for key in keys)
    found = recoverer.recover_partition(partition, process_ids)
    return {process_id: one for process_id, one in found.items() if one.known and not one.state.finished}


def _from_view(recoverer: Recoverer, partition: int) -> Set[bytes] | None:
    """Return the open processes of the view's index, and those with later entries; None without a usable view."""
    view = recoverer.base_finder.view
    if view is None:
        return None
    keys: set[bytes] = set()
    first, after = None, b""
    try:
        while True:
            meta, summaries = view.page(partition, after, b"", _PAGE, open_only=True)
            first = first or meta
            if first is None or meta is None or meta.token != first.token:
                return None
            keys.update(one.process_id.encode() for one in summaries)
            if len(summaries) < _PAGE:
                break
            after = summaries[-1].process_id.encode()
    except (ViewUnavailable, ViewRefused, JournalMismatch):
        return None
    marks = recoverer.log.watermarks(partition)
    if first.applied is None or view_problem(first, recoverer.log.topic_id, marks) is not None:
        return None
    landmark = Landmark(first.applied, first.leader_epoch)
    later = _keys_from(recoverer, partition, first.applied + 1, marks, landmark)
    return None if later is None else keys | later


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
