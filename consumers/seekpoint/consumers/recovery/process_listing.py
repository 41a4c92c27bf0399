"""The index of processes: their summaries by id, as of now, a page at a time.

a page of each partition's view, and the processes with entries that the view has not applied yet, recovered
without a usable view: the keys of the partition's log, and a recovery of the processes of the page
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Set
from heapq import merge
from itertools import islice

from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.view_summaries import (
    NoViewError,
    keys_from,
    missing_view,
    summaries,
    unapplied_keys,
    view_page,
)
from seekpoint.consumers.view.process_summary import Summary, summary_of
from seekpoint.schemas.log.log_ports import Watermarks

_PAGE_MAX, _RECOVERED_MAX = 500, 2_000
"""How many processes of a partition are read from the view at once, and how many states are recovered at once."""


def list_processes(
    recoverer: Recoverer, prefix: str, after: str, limit: int | None, on_no_view: Callable[[str], object]
) -> Generator[list[Summary], None, None]:
    """Yield the processes whose ids begin with ``prefix`` and come after ``after``, by id, in batches. Blocks.

    Shared values are left out. Each batch has every entry that was acknowledged before it was asked for. Raises
    ``TransactionOpen``, and what a recovery raises.
    """
    count = min(_PAGE_MAX, limit or _PAGE_MAX)
    streams = [
        _of_partition(recoverer, partition, prefix.encode(), after.encode(), count, on_no_view)
        for partition in range(recoverer.log.partitions)
    ]
    # The order by code points is the order by UTF-8 bytes.
    found = islice((one for one in merge(*streams, key=lambda one: one.process_id) if not one.is_shared), limit)
    while batch := list(islice(found, count)):
        yield batch


def _of_partition(
    recoverer: Recoverer, partition: int, prefix: bytes, after: bytes, count: int, on_no_view: Callable[[str], object]
) -> Iterator[Summary]:
    while True:
        recoverer.readable_end(partition)
        try:
            page, stop = _view_page(recoverer, partition, prefix, after, count)
        except NoViewError as exc:
            on_no_view(exc.why)
            yield from _from_log(recoverer, partition, prefix, after, count)
            return
        yield from page
        if stop is None:
            return
        after = stop


def _view_page(
    recoverer: Recoverer, partition: int, prefix: bytes, after: bytes, count: int
) -> tuple[list[Summary], bytes | None]:
    """Return the next processes as of now, and the key behind which the next page begins; None: these are all.

    Raises ``NoViewError``.
    """
    meta, page = view_page(recoverer, partition, after, prefix, count)
    if meta is None:
        raise NoViewError(missing_view(partition))
    stop = None if len(page) < count else page[-1].process_id.encode()
    later = _between(unapplied_keys(recoverer, partition, meta), prefix, after)
    if stop is not None:  # what comes behind the page is left to the next one
        later = {key for key in later if key <= stop}
    wanted = sorted(later)
    if len(wanted) > (most := min(4 * count, _RECOVERED_MAX)):
        wanted, stop = wanted[:most], wanted[most - 1]
        page = [one for one in page if one.process_id.encode() <= stop]
    found = {
        one.process_id: one for one in page if one.is_listed and one.process_id.encode() not in later
    } | _recovered(recoverer, partition, wanted)
    return [found[process_id] for process_id in sorted(found)], stop


def _from_log(recoverer: Recoverer, partition: int, prefix: bytes, after: bytes, count: int) -> Iterator[Summary]:
    marks = recoverer.log.watermarks(partition)
    keys = _keys_of_log(recoverer, partition, marks)
    if keys is None:  # the log was trimmed: only checkpoints tell which processes there are
        found = summaries(recoverer, partition, lambda why: None)
        wanted = {one.process_id.encode(): one for one in found}
        yield from (wanted[key] for key in sorted(_between(wanted.keys(), prefix, after)))
        return
    left = sorted(_between(keys, prefix, after))
    while left:
        some, left = left[:count], left[count:]
        yield from _recovered(recoverer, partition, some).values()
        count = min(4 * count, _RECOVERED_MAX)  # each recovery reads the partition once


def _keys_of_log(recoverer: Recoverer, partition: int, marks: Watermarks) -> Set[bytes] | None:
    return None if marks.low > 0 else keys_from(recoverer, partition, 0, marks)


def _between(keys: Set[bytes], prefix: bytes, after: bytes) -> set[bytes]:
    return {key for key in keys if key > after and key.startswith(prefix)}


def _recovered(recoverer: Recoverer, partition: int, keys: list[bytes]) -> dict[str, Summary]:
    """Return the summaries of these processes as of now, in their order."""
    found = recoverer.recover_partition(partition, [key.decode() for key in keys], skip_unusable=True) if keys else {}
    return {
        key.decode(): summary_of(partition, key, one.state)
        for key in keys
        if (one := found.pop(key.decode(), None)) is not None and one.known
    }
