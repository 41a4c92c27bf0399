"""What a view has and no checkpoint has (P4): which processes are dirty, which of them are due, what holds the floor.

In memory only. Nothing looks at all of them: a hundred thousand that are dirty cost a proposal no more than a hundred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from seekpoint.consumers.checkpoints.cadence import Cadence, Dirty

__all__ = ["DirtySet"]


class DirtySet:
    """The dirty processes of one partition, by key. One thread's. Times are the projector's clock, which only rises."""

    def __init__(self, cadence: Cadence, dirty: Mapping[bytes, Dirty] | None = None) -> None:
        self._cadence = cadence
        self._dirty = dict(dirty or {})
        self._firsts = [(one.first, key) for key, one in self._dirty.items()]
        heapify(self._firsts)
        # An entry of these two that is not what its process is now was overtaken: it is passed over.
        self._ages = deque(sorted((one.since_s, key) for key, one in self._dirty.items()))
        self._ripe = {key for key, one in self._dirty.items() if cadence.is_ripe(one)}

    @property
    def by_key(self) -> Mapping[bytes, Dirty]:
        """All of them."""
        return self._dirty

    def __contains__(self, key: object) -> bool:
        return key in self._dirty

    def note(
        self, key: bytes, first: int, last: int, read_bytes: int, state_bytes: int, is_urgent: bool, now_s: float
    ) -> None:
        """Entries of ``key`` from ``first`` to ``last`` were folded."""
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

    def saved(self, key: bytes, offset: int, now_s: float) -> None:
        """The checkpoint as of ``offset`` is in the log: what was folded since stays dirty (P6)."""
        dirty = self._dirty.get(key)
        if dirty is None:
            return
        self.forget(key)
        if dirty.last > offset:
            self._add(key, Dirty(offset + 1, dirty.last, now_s, 0, dirty.state_bytes))

    def forget(self, key: bytes) -> None:
        """There is nothing of it to save."""
        self._dirty.pop(key, None)
        self._ripe.discard(key)

    def due(self, now_s: float, wanted: Iterable[bytes]) -> list[bytes]:
        """Those whose checkpoint should be written, and of ``wanted`` those that are dirty: the oldest first.

        They hold the floor back. No more than go into one transaction.
        """
        found = self._ripe | {key for key in wanted if key in self._dirty}
        found.update(self._aged(now_s))
        return self._taken(sorted(found, key=lambda key: self._dirty[key].first))

    def oldest(self) -> list[bytes]:
        """Due or not, the oldest first, no more than go into one transaction."""
        return self._taken(key for _, key in self._by_first())

    def first_besides(self, keys: Collection[bytes]) -> int | None:
        """The first unsaved entry of the others; None: there are no others."""
        return next((first for first, key in self._by_first() if key not in keys), None)

    def _add(self, key: bytes, dirty: Dirty) -> Dirty:
        self._dirty[key] = dirty
        heappush(self._firsts, (dirty.first, key))
        self._ages.append((dirty.since_s, key))
        return dirty

    def _by_first(self) -> Iterator[tuple[int, bytes]]:
        """As far as it is asked, the oldest first; each stays."""
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

    def _taken(self, keys: Iterable[bytes]) -> list[bytes]:
        taken: list[bytes] = []
        width = 0
        for key in keys:
            taken.append(key)
            width += self._dirty[key].state_bytes
            if width > self._cadence.batch_bytes_max or len(taken) == self._cadence.batch_max:
                break
        return taken
