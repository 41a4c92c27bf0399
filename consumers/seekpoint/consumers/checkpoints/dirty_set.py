"""The dirty set of a partition: processes whose view is ahead of their checkpoint (P4), and which of them are due.

It is in memory only. No call looks at all processes: with a hundred thousand of them a proposal costs no more than with
a hundred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from seekpoint.consumers.checkpoints.cadence import Cadence, Dirty


class DirtySet:
    """The dirty processes of one partition, by key. For one thread. Times are of the projector's monotonic clock."""

    def __init__(self, cadence: Cadence, dirty: Mapping[bytes, Dirty] | None = None) -> None:
        self._cadence = cadence
        self._dirty = dict(dirty or {})
        self._firsts = [(one.first, key) for key, one in self._dirty.items()]
        heapify(self._firsts)
        # An item of these two is outdated, and skipped, if it differs from its process in ``_dirty``.
        self._ages = deque(sorted((one.since_s, key) for key, one in self._dirty.items()))
        self._ripe = {key for key, one in self._dirty.items() if cadence.is_ripe(one)}

    @property
    def by_key(self) -> Mapping[bytes, Dirty]:
        """All dirty processes."""
        return self._dirty

    def __contains__(self, key: object) -> bool:
        return key in self._dirty

    def mark(
        self, key: bytes, first: int, last: int, read_bytes: int, state_bytes: int, is_urgent: bool, now_s: float
    ) -> None:
        """Mark ``key`` dirty: its entries from ``first`` to ``last`` were folded."""
        dirty = self._dirty.get(key)
        if dirty is None:
            dirty = self._add(key, Dirty(first, last, now_s))
        dirty.last = last
        dirty.bytes += read_bytes
        dirty.state_bytes = state_bytes
        dirty.is_urgent = dirty.is_urgent or is_urgent
        if self._cadence.is_ripe(dirty):
            self._ripe.add(key)
        else:
            self._ripe.discard(key)

    def mark_saved(self, key: bytes, offset: int, now_s: float) -> None:
        """Note that the checkpoint as of ``offset`` is in the log. Entries folded since keep ``key`` dirty (P6)."""
        dirty = self._dirty.get(key)
        if dirty is None:
            return
        self.remove(key)
        if dirty.last > offset:
            self._add(key, Dirty(offset + 1, dirty.last, now_s, 0, dirty.state_bytes))

    def remove(self, key: bytes) -> None:
        """Remove ``key``: it has nothing to save."""
        self._dirty.pop(key, None)
        self._ripe.discard(key)

    def due(self, now_s: float, requested: Iterable[bytes]) -> list[bytes]:
        """Return the keys whose checkpoints are due, and the dirty ones among ``requested``, the oldest first.

        The oldest hold the floor back. Returns no more than go into one transaction.
        """
        found = self._ripe | {key for key in requested if key in self._dirty}
        found.update(self._aged(now_s))
        return self._limited(sorted(found, key=lambda key: self._dirty[key].first))

    def oldest(self) -> list[bytes]:
        """Return the oldest keys, due or not: no more than go into one transaction."""
        return self._limited(key for _, key in self._by_first())

    def first_except(self, keys: Collection[bytes]) -> int | None:
        """Return the first unsaved entry of the processes that are not in ``keys``; None if there are none."""
        return next((first for first, key in self._by_first() if key not in keys), None)

    def _add(self, key: bytes, dirty: Dirty) -> Dirty:
        self._dirty[key] = dirty
        heappush(self._firsts, (dirty.first, key))
        self._ages.append((dirty.since_s, key))
        return dirty

    def _by_first(self) -> Iterator[tuple[int, bytes]]:
        """Yield (first unsaved entry, key), the oldest first, as far as the caller reads. Removes nothing."""
        seen: list[tuple[int, bytes]] = []
        try:
            while self._firsts:
                one = heappop(self._firsts)
                dirty = self._dirty.get(one[1])
                if dirty is not None and dirty.first == one[0] and one not in seen[-1:]:
                    seen.append(one)
                    yield one
        finally:
            for one in seen:
                heappush(self._firsts, one)

    def _aged(self, now_s: float) -> Iterator[bytes]:
        ages = self._ages
        while ages and not self._is_current(ages[0]):
            ages.popleft()
        count = 0
        for one in ages:
            if count == self._cadence.batch_max or now_s - one[0] < self._cadence.age_max_s:
                return
            if self._is_current(one):
                count += 1
                yield one[1]

    def _is_current(self, age: tuple[float, bytes]) -> bool:
        dirty = self._dirty.get(age[1])
        return dirty is not None and dirty.since_s == age[0]

    def _limited(self, keys: Iterable[bytes]) -> list[bytes]:
        limited: list[bytes] = []
        width = 0
        for key in keys:
            limited.append(key)
            width += self._dirty[key].state_bytes
            if width > self._cadence.batch_bytes_max or len(limited) == self._cadence.batch_max:
                break
        return limited
