"""Summaries of the processes of a partition as of now: from the view and the entries that it has not applied yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING

from seekpoint.consumers.log_reading.lost_ends import stands_on_lost
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.process_summary import Summary, summary_of
from seekpoint.schemas.bodies.entry import is_process_key
from seekpoint.schemas.errors import (
    JournalGap,
    JournalMismatch,
    LogTruncated,
    ViewRefused,
    ViewUnavailable,
)
from seekpoint.schemas.log.log_ports import Landmark, Watermarks

if TYPE_CHECKING:
    from seekpoint.consumers.view.view_store import Page, ViewMeta

_PAGE = 1_000


class NoViewError(Exception):
    """The view of the partition cannot be used. ``why`` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def missing_view(partition: int) -> str:
    """Say that a partition has no view yet, and what keeps one."""
    return f"partition {partition} has no view yet (seekpoint serve projector writes it)"


def summaries(recoverer: Recoverer, partition: int, on_no_view: Callable[[str], object]) -> Iterator[Summary]:
    """Yield the summaries of all processes of ``partition``, as of now, in no order. Blocks.

    Without a usable view, ``on_no_view`` receives the reason; then all processes are recovered. Raises what a recovery
    raises.
    """
    found: dict[bytes, Summary] = {}
    try:
        later = read_view(
            recoverer, partition, lambda one: found.__setitem__(one.process_id.encode(), one), open_only=False
        )
    except NoViewError as exc:
        on_no_view(exc.why)
        states = recoverer.recover_partition(partition)
    else:
        yield from (one for key, one in found.items() if key not in later and one.is_listed)
        ids = sorted(key.decode() for key in later)
        states = recoverer.recover_partition(partition, ids, skip_unusable=True) if ids else {}
    for process_id in [*states]:
        recovered = states.pop(process_id)
        if recovered.known:
            yield summary_of(partition, process_id.encode(), recovered.state)


def read_view(
    recoverer: Recoverer, partition: int, take: Callable[[Summary], object], *, open_only: bool
) -> Set[bytes]:
    """Give ``take`` each summary in the view; return the keys that have entries which the view has not applied.

    ``open_only``: only unfinished processes. Raises ``NoViewError``, also after some were taken.
    """
    first, after = None, b""
    while True:
        meta, page = view_page(recoverer, partition, after, b"", _PAGE, open_only=open_only)
        first = first or meta
        if first is None:
            raise NoViewError(missing_view(partition))
        if meta is None or meta.token != first.token:
            raise NoViewError(f"the view of partition {partition} cannot be used: it is being rebuilt")
        for one in page:
            take(one)
        if len(page) < _PAGE:
            break
        after = page[-1].process_id.encode()
    return unapplied_keys(recoverer, partition, first)


def view_page(
    recoverer: Recoverer, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False
) -> Page:
    """Return a page of the view, as ``ViewStore.page`` does. Raises ``NoViewError`` if there is no view to ask."""
    view = recoverer.base_finder.view
    if view is None:
        raise NoViewError("the settings name no Redis")
    try:
        return view.page(partition, after, prefix, count, open_only=open_only)
    except (ViewUnavailable, ViewRefused, JournalMismatch) as exc:
        raise NoViewError(exc.message) from exc


def unapplied_keys(recoverer: Recoverer, partition: int, meta: ViewMeta) -> Set[bytes]:
    """Return the keys of the entries that the view had not applied as of ``meta``. Raises ``NoViewError``."""
    marks = recoverer.log.watermarks(partition)
    problem = recoverer.base_finder.view_problem(partition, meta, marks)
    if meta.applied is None or problem is not None:
        raise NoViewError(f"the view of partition {partition} cannot be used: {problem}")
    landmark = Landmark(meta.applied, meta.leader_epoch)
    later = keys_from(recoverer, partition, meta.applied + 1, marks, landmark)
    if later is None:
        raise NoViewError(f"the view of partition {partition} is not of this log")
    return later


def keys_from(
    recoverer: Recoverer,
    partition: int,
    start: int,
    marks: Watermarks,
    landmark: Landmark | None = None,
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
            keys.update(key for record in batch.records if (key := record.key) is not None and is_process_key(key))
        if stands_on_lost(recoverer.log, partition, () if landmark is None else (landmark,), first, marks):
            return None
    except (JournalGap, LogTruncated):
        return None
    return {key for key in keys if not is_excluded(key)}
