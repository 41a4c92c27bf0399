"""The health and the metrics of a projector, computed from the progress of its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.consumers.projector.projector_loop import Lag

_MOVED_S = 1.0


class ProjectorHealth:
    """The health of a projector: unhealthy if a partition with lag, or the loop, stalls for ``stall_max_s``.

    Call ``look`` about every second with the result of ``Projector.lag()``.
    """

    def __init__(self, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._stall_max_s = stall_max_s
        self._clock = clock
        self._loop = ProgressHealth(stall_max_s, clock)
        self._partitions: dict[int, ProgressHealth] = {}
        self._applied_at: dict[int, float] = {}
        self.lags: Mapping[int, Lag] | None = None
        """The lags of the last ``look``; None before the first."""

    def look(self, lags: Mapping[int, Lag], *, is_lost: bool = False) -> None:
        """Record progress. The projector's loop makes a new mapping each time; the same one means a stalled loop.

        A member that its group has lost makes none.
        """
        if lags is self.lags or is_lost:
            return
        self._loop.progress()
        self.lags = lags
        self._partitions = {
            partition: self._partitions.get(partition) or ProgressHealth(self._stall_max_s, self._clock)
            for partition in lags
        }
        for partition, lag in lags.items():
            health = self._partitions[partition]
            health.observe(lag.entries)
            applied_at = self._clock() - lag.idle_s
            if applied_at > self._applied_at.get(partition, float("-inf")) + _MOVED_S:
                self._applied_at[partition] = applied_at
                if lag.idle_s <= _MOVED_S:
                    health.progress()

    @property
    def lag(self) -> int | None:
        """The number of offsets not yet projected in all partitions; None before the first ``look``."""
        return None if self.lags is None else sum(lag.entries for lag in self.lags.values())

    @property
    def stalled_s(self) -> float:
        """The longest time in seconds that a partition or the loop has made no progress."""
        return max(health.stalled_s for health in (self._loop, *self._partitions.values()))

    @property
    def is_well(self) -> bool:
        """Whether everything made progress recently enough."""
        return self.stalled_s <= self._stall_max_s

    @property
    def not_ready(self) -> str | None:
        """The reason why the projector does not do its work yet, or any more; None while it does."""
        if self.lags is None:
            return "it has not begun to work"
        return None if self.is_well else f"no progress for {self.stalled_s:.0f} s"

    @property
    def parts(self) -> Mapping[str, float]:
        """Nothing: the metrics show the projector's partitions."""
        return {}


def projector_families(health: ProjectorHealth) -> Iterator[Metric]:
    """Yield the metrics of a projector by partition. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    lags, name = health.lags or {}, "seekpoint_projector"
    entries = GaugeMetricFamily(f"{name}_lag_entries", "Offsets that are not projected yet.", labels=["partition"])
    seconds = GaugeMetricFamily(
        f"{name}_lag_seconds", "Age of the newest projected entry while entries are missing.", labels=["partition"]
    )
    idle = GaugeMetricFamily(f"{name}_idle_seconds", "Seconds since the last projected entry.", labels=["partition"])
    for partition, lag in sorted(lags.items()):
        entries.add_metric([str(partition)], lag.entries)
        seconds.add_metric([str(partition)], lag.seconds)
        idle.add_metric([str(partition)], lag.idle_s)
    yield from (entries, seconds, idle)
    yield GaugeMetricFamily(f"{name}_partitions", "Partitions assigned to this projector.", len(lags))
    stopped = sum(lag.stopped is not None for lag in lags.values())
    yield GaugeMetricFamily(f"{name}_stopped_partitions", "Partitions that stopped and need an operator.", stopped)
    damages = sum(lag.damages for lag in lags.values())
    text = "States in the view that differed from checkpoint and log and were rebuilt."
    yield CounterMetricFamily(f"{name}_damaged_states", text, damages)
    yield GaugeMetricFamily(f"{name}_stalled_seconds", "Seconds without progress while work waited.", health.stalled_s)
