"""The runs that wait for room in a worker: the highest priority first, then the oldest. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import count

from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["ReadyRun", "RunQueue"]


class ReadyRun(FrozenStruct, frozen=True):
    """A process that is to be run."""

    process_id: str
    agent: str
    priority: int = 0
    since_s: float = 0.0
    """Since when it is ready, by the worker's monotonic clock."""
    ended: frozenset[str] = frozenset()
    """The child processes that it need not wait for: they have ended, or do not exist yet."""


class RunQueue:
    """What is ready and what runs. At most ``runs_max`` run at once, and of an agent at most ``concurrency[agent]``."""

    def __init__(self, runs_max: int, concurrency: Mapping[str, int] | None = None) -> None:
        self._runs_max = runs_max
        self._concurrency = dict(concurrency or {})
        self._heaps: dict[str, list[tuple[int, float, int, ReadyRun]]] = {}
        self._ready: dict[str, ReadyRun] = {}
        self._running: dict[str, str] = {}
        self._by_agent: Counter[str] = Counter()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def running(self) -> Mapping[str, str]:
        """The processes that run, with their agents."""
        return self._running

    @property
    def ready(self) -> Collection[str]:
        """The processes that wait for room."""
        return self._ready.keys()

    @property
    def oldest_s(self) -> float | None:
        """Since when the run that is ready for longest is ready; None if none is. Any thread may ask."""
        return min((one.since_s for one in list(self._ready.values())), default=None)

    def add(self, run: ReadyRun) -> None:
        """Add a process that is to be run. One that is ready already, or runs, stays as it is."""
        if run.process_id not in self._ready and run.process_id not in self._running:
            self._ready[run.process_id] = run
            heap = self._heaps.setdefault(run.agent, [])
            heapq.heappush(heap, (-run.priority, run.since_s, next(self._numbers), run))

    def remove(self, process_id: str) -> None:
        """Remove a process that is not to be run any more. One that runs goes on."""
        self._ready.pop(process_id, None)

    def take(self) -> ReadyRun | None:
        """Return the next run that there is room for, and count it as running; None if there is none."""
        if len(self._running) >= self._runs_max:
            return None
        best: tuple[int, float, int, ReadyRun] | None = None
        for agent in list(self._heaps):
            head = self._head(agent)
            if head is not None and self._has_room(agent) and (best is None or head < best):
                best = head
        if best is None:
            return None
        run = heapq.heappop(self._heaps[best[3].agent])[3]
        del self._ready[run.process_id]
        self._running[run.process_id] = run.agent
        self._by_agent[run.agent] += 1
        return run

    def _head(self, agent: str) -> tuple[int, float, int, ReadyRun] | None:
        """Return the first run of an agent, without those that were removed."""
        heap = self._heaps[agent]
        while heap and self._ready.get(heap[0][3].process_id) is not heap[0][3]:
            heapq.heappop(heap)
        if not heap:
            del self._heaps[agent]
            return None
        return heap[0]

    def _has_room(self, agent: str) -> bool:
        limit = self._concurrency.get(agent)
        return limit is None or self._by_agent[agent] < limit

    def ended(self, process_id: str) -> None:
        """Count a run as over."""
        agent = self._running.pop(process_id, None)
        if agent is not None:
            self._by_agent[agent] -= 1
