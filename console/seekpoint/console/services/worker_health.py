"""The health and the metrics of a worker, judged by the progress of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.producers import Worker
    from seekpoint.producers.worker.worker_progress import WorkerProgress
    from seekpoint.producers.writer.node_metrics import Histogram

__all__ = ["WorkerHealth", "worker_families"]


class WorkerHealth:
    """The health of a worker: healthy while its event loop, its inbox and its tails make progress.

    It does not matter how long runs take, and whether Kafka answers: a restart would help neither. Call ``look`` about
    every second from the worker's event loop. Any thread may read the rest.
    """

    def __init__(
        self, worker: Worker, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.worker = worker
        self.stall_max_s = stall_max_s
        self._loop, self._inbox, self._tail = (ProgressHealth(stall_max_s, clock) for _ in range(3))
        self.seen: WorkerProgress = worker.progress()
        """The progress at the last ``look``."""
        self.status = worker.status()
        """What the heartbeat said at the last ``look``."""

    def look(self) -> None:
        """Record the progress of all parts."""
        before, now = self.seen, self.worker.progress()
        self.seen, self.status = now, self.worker.status()
        self._loop.progress()
        # A drain ends by itself, and reads neither the inbox nor the ends of partitions.
        if now.inbox_rounds != before.inbox_rounds or now.is_writing or now.is_draining:
            self._inbox.progress()
        if now.tail_rounds != before.tail_rounds or now.tail_is_idle or now.is_draining:
            self._tail.progress()

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds that each part has made no progress."""
        behind_s = 0.0 if self.seen.is_draining else self.seen.tail_stalled_s
        return {
            "loop": self._loop.stalled_s,
            "inbox": self._inbox.stalled_s,
            "tail": max(self._tail.stalled_s, behind_s),
        }

    @property
    def lag(self) -> int | None:
        """The processes that wait for room."""
        return self.status.ready

    @property
    def stalled_s(self) -> float:
        """The longest time in seconds that a part has made no progress."""
        return max(self.parts.values())

    @property
    def is_well(self) -> bool:
        """Whether every part made progress recently enough."""
        return self.stalled_s <= self.stall_max_s

    @property
    def not_ready(self) -> str | None:
        """Why the worker takes no runs yet, or any more; None while it does."""
        if self.seen.is_draining:
            return "it drains"
        if not self.seen.is_joined:
            return "its group has not assigned partitions yet"
        if not self.seen.is_caught_up:
            return "it reads the unfinished processes of its partitions"
        stalled = [name for name, seconds in self.parts.items() if seconds > self.stall_max_s]
        return f"no progress: {', '.join(stalled)}" if stalled else None


def worker_families(health: WorkerHealth) -> Iterator[Metric]:
    """Yield the metrics of a worker. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    worker, status, seen, name = health.worker, health.status, health.seen, "seekpoint_worker"
    yield CounterMetricFamily(f"{name}_submissions", "Submissions written to the journal.", seen.submissions)
    yield CounterMetricFamily(f"{name}_runs_started", "Runs that began here for the first time.", worker.started)
    yield CounterMetricFamily(f"{name}_runs_resumed", "Runs continued here, after a wait or a crash.", worker.resumed)
    runs = CounterMetricFamily(f"{name}_runs", "Runs that ended here.", labels=["outcome"])
    ended: Mapping[str, int] = {"finished": worker.finished, "failed": worker.failed, "cancelled": worker.cancelled}
    for outcome, count in ended.items():
        runs.add_metric([outcome], count)
    yield runs
    yield GaugeMetricFamily(f"{name}_running", "Runs in memory.", status.running)
    yield GaugeMetricFamily(f"{name}_ready", "Processes that wait for room.", status.ready)
    text = "For how long the oldest process has waited for room."
    yield GaugeMetricFamily(f"{name}_queue_age_seconds", text, worker.queue_age_s)
    yield GaugeMetricFamily(f"{name}_waiting", "Processes that wait for a moment or for mail.", status.waiting)
    yield GaugeMetricFamily(f"{name}_partitions", "Partitions that are assigned here.", len(status.partitions))
    yield GaugeMetricFamily(f"{name}_draining", "1 while the worker drains.", int(status.draining))
    yield GaugeMetricFamily(f"{name}_tail_lag_entries", "Offsets that the tails are behind.", seen.tail_lag)
    stalled = GaugeMetricFamily(f"{name}_stalled_seconds", "Seconds without progress, by part.", labels=["part"])
    for part, seconds in health.parts.items():
        stalled.add_metric([part], seconds)
    yield stalled
    yield from _node_families(worker, name)


def _node_families(worker: Worker, name: str) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    metrics = worker.metrics
    text = "From handing a record to the Kafka client to its acknowledgement."
    yield _histogram(f"{name}_append_seconds", text, metrics.append_s)
    text = "From the wish to confirm acknowledged entries until they were read back."
    yield _histogram(f"{name}_confirm_seconds", text, metrics.confirm_s)
    calls = HistogramMetricFamily(f"{name}_step_seconds", "Attempts of calls, by their kind.", labels=["kind"])
    for kind, times in metrics.calls_s.items():
        calls.add_metric([kind], buckets=times.buckets(), sum_value=times.sum_s)
    yield calls
    text = "Entries that do not count, because another owner's claim came first."
    yield CounterMetricFamily(f"{name}_fenced_entries", text, metrics.fenced_entries)
    tiers = CounterMetricFamily(f"{name}_recoveries", "States recovered, by tier.", labels=["tier"])
    for tier, count in worker.recoveries.items():
        tiers.add_metric([tier], count)
    yield tiers


def _histogram(name: str, text: str, times: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    return HistogramMetricFamily(name, text, buckets=times.buckets(), sum_value=times.sum_s)
