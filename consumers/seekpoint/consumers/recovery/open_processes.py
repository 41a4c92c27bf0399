"""Recovery of the processes of a partition that have not finished, at a cost that the finished ones do not raise.

    the view's index of open processes, or the heads of unfinished checkpoints
      + the keys of the entries that came later   ──> one recovery of all of them, with one scan

Without a view and without a floor, every process is read once. ``open_states`` recovers only the processes whose
summary is wanted. It reads their summaries in the view, and keeps a limited number of states in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.consumers.recovery.view_summaries import NoViewError, keys_from, read_view
from seekpoint.consumers.view.process_summary import Summary, is_open_process, summary_of
from seekpoint.schemas.state.process_state import State

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
    found = recoverer.recover_partition(partition, process_ids, skip_unusable=True)
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
        found = recoverer.recover_partition(partition, some, skip_unusable=True)
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
    except NoViewError as exc:
        on_no_view(exc.why)
    return _from_checkpoints(recoverer, partition)


def _from_view(recoverer: Recoverer, partition: int, wants: Callable[[Summary], bool]) -> Set[bytes]:
    """Return the open processes of the view's index that are wanted, and all with later entries."""
    keys: set[bytes] = set()

    def take(one: Summary) -> None:
        if wants(one):
            keys.add(one.process_id.encode())

    return keys | read_view(recoverer, partition, take, open_only=True)


def _from_checkpoints(recoverer: Recoverer, partition: int) -> Set[bytes] | None:
    """Return the processes with an unfinished checkpoint, or with an entry from the floor on; None without a floor."""
    index = recoverer.base_finder.index
    if index is None:
        return None
    found = index.unfinished(partition)
    floor = found.floor
    if floor is None or floor.topic_id != recoverer.log.topic_id:
        return None
    marks = recoverer.log.watermarks(partition)
    later = keys_from(recoverer, partition, floor.offset, marks, floor.landmark, found.is_finished)
    return None if later is None else found.keys | later
