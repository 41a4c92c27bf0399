"""The runs that wait for room in a worker: the highest priority first, then the oldest. Pure: no clock."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Mapping
from itertools import count
from typing import TypeAlias

from seekpoint.producers.durable.steps.rates import Rate
from seekpoint.schemas.frozen_struct import FrozenStruct


class ReadyRun(FrozenStruct, frozen=True):
    """A process that is to be run."""

    process_id: str
    agent: str
    priority: int = 0
    since_s: float = 0.0
    """Since when it is ready, by the worker's monotonic clock."""
    ended: frozenset[str] = frozenset()
    """The child processes that it need not wait for: they have ended, or do not exist yet."""
    begins: bool = False
    """Whether the run is a new one, which counts for the rate of its agent."""
    is_last_try: bool = False
    """Whether one more death of its owner parks it."""


_LAST_TRY_S = 60.0
"""How long a last try runs without progress before the next one may begin beside it."""

_Place: TypeAlias = "tuple[int, float, int, ReadyRun]"


class RunQueue:
    """The runs that are ready or under way. At most ``runs_max`` run at once, of an agent ``concurrency[agent]``.

    New runs of an agent begin as ``rates[agent]`` allows. Last tries begin one after the other: if one ends the worker,
    the others did not run, and are not parked with it.
    """

    def __init__(
        self, runs_max: int, concurrency: Mapping[str, int] | None = None, rates: Mapping[str, Rate] | None = None
    ) -> None:
        self._runs_max = runs_max
        self._concurrency = dict(concurrency or {})
        self._rates = dict(rates or {})
        self._begun_at: dict[str, deque[float]] = {name: deque(maxlen=one.runs) for name, one in self._rates.items()}
        """When the newest runs of an agent with a rate began, by the worker's monotonic clock."""
        self._heaps: dict[tuple[str, bool, bool], list[_Place]] = {}
        """What is ready, by its agent, whether it has to wait for the agent's rate, and whether it is a last try."""
        self.last_try: str | None = None
        """The process whose last try runs, and has made no progress yet."""
        self._last_try_at_s = 0.0
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
            heap = self._heaps.setdefault(self._heap_of(run), [])
            heapq.heappush(heap, (-run.priority, run.since_s, next(self._numbers), run))

    def remove(self, process_id: str) -> None:
        """Remove a process that is not to be run any more. One that runs goes on."""
        self._ready.pop(process_id, None)

    def take(self, now_s: float = 0.0) -> ReadyRun | None:
        """Return the next run that there is room for, and count it as running; None if there is none.

        ``now_s`` is the worker's monotonic clock, by which the rates of agents count.
        """
        if len(self._running) >= self._runs_max:
            return None
        best: _Place | None = None
        for name in list(self._heaps):
            head = self._head(name)
            if head is not None and (best is None or head < best) and self._may_begin(name, now_s):
                best = head
        if best is None:
            return None
        run = heapq.heappop(self._heaps[self._heap_of(best[3])])[3]
        del self._ready[run.process_id]
        if run.is_last_try:
            self.last_try, self._last_try_at_s = run.process_id, now_s
        self._running[run.process_id] = run.agent
        self._by_agent[run.agent] += 1
        if run.begins and run.agent in self._rates:
            self._begun_at[run.agent].append(now_s)
        return run

    def wait_s(self, now_s: float) -> float | None:
        """Return the seconds until a rate lets the next run begin; None if no run waits for a rate."""
        waits = [self._rate_wait_s(agent, now_s) for agent, is_rated, _ in self._heaps if is_rated]
        return min((seconds for seconds in waits if seconds > 0), default=None)

    def _heap_of(self, run: ReadyRun) -> tuple[str, bool, bool]:
        return run.agent, run.begins and run.agent in self._rates, run.is_last_try

    def _head(self, name: tuple[str, bool, bool]) -> _Place | None:
        """Return the first run of a heap, without those that were removed."""
        heap = self._heaps[name]
        while heap and self._ready.get(heap[0][3].process_id) is not heap[0][3]:
            heapq.heappop(heap)
        if not heap:
            del self._heaps[name]
            return None
        return heap[0]

    def _may_begin(self, name: tuple[str, bool, bool], now_s: float) -> bool:
        agent, is_rated, is_last_try = name
        if is_last_try and self.last_try is not None and now_s - self._last_try_at_s < _LAST_TRY_S:
            return False
        return self._has_room(agent) and (not is_rated or self._rate_wait_s(agent, now_s) <= 0)

    def _rate_wait_s(self, agent: str, now_s: float) -> float:
        """Return the seconds until the rate of an agent lets a new run begin: 0 or less if it does now."""
        rate, begun_at = self._rates[agent], self._begun_at[agent]
        return 0.0 if len(begun_at) < rate.runs else begun_at[0] + rate.per_s - now_s

    def _has_room(self, agent: str) -> bool:
        limit = self._concurrency.get(agent)
        return limit is None or self._by_agent[agent] < limit

    def ended(self, process_id: str) -> None:
        """Count a run as over."""
        agent = self._running.pop(process_id, None)
        if process_id == self.last_try:
            self.last_try = None
        if agent is not None:
            self._by_agent[agent] -= 1
