"""The health and the metrics of a worker, judged by the progress of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth
from seekpoint.producers.health.node_metric_families import node_families, runs_family, stalled_family, thread_families
from seekpoint.producers.health.parts_health import PartsHealth
from seekpoint.producers.node import runtime_of

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.producers import Worker
    from seekpoint.producers.worker.worker_progress import WorkerProgress


class WorkerHealth(PartsHealth):
    """The health of a worker: healthy while its event loop, its inbox and its tails make progress.

    It does not matter how long runs take, and whether Kafka answers: a restart would help neither. Call ``look`` about
    every second from the worker's event loop. Any thread may read the rest.
    """

    def __init__(
        self, worker: Worker, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stall_max_s)
        self.worker = worker
        self._loop, self._inbox, self._tail, self._threads = (ProgressHealth(stall_max_s, clock) for _ in range(4))
        self._body_threads = runtime_of(worker.node).body_threads
        self._has_joined = False
        self.seen: WorkerProgress = worker.progress()
        """The progress at the last ``look``."""
        self.status = worker.status()
        """What the heartbeat said at the last ``look``."""

    def look(self) -> None:
        """Record the progress of all parts."""
        before, now = self.seen, self.worker.progress()
        self.seen, self.status = now, self.worker.status()
        self._loop.progress()
        self._has_joined = self._has_joined or now.is_joined
        is_lost = self._has_joined and not now.is_joined  # its group does not take it again although Kafka answers
        if not self._body_threads.is_used_up:
            self._threads.progress()
        # A drain ends by itself, and reads neither the inbox nor the ends of partitions.
        if is_lost and not now.is_draining:
            pass
        elif now.inbox_rounds != before.inbox_rounds or now.is_writing or now.is_draining:
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
            "threads": self._threads.stalled_s,
            "tail": max(self._tail.stalled_s, behind_s),
        }

    @property
    def lag(self) -> int | None:
        """The processes that wait for room."""
        return self.status.ready

    @property
    def not_ready(self) -> str | None:
        """Why the worker takes no runs yet, or any more; None while it does."""
        if self.seen.is_draining:
            return "it drains"
        if not self.seen.is_joined:
            return "its group has not assigned partitions yet"
        if not self.seen.is_caught_up:
            return "it reads the unfinished processes of its partitions"
        return self._stalled_parts() or self._body_threads.shortage


def worker_families(health: WorkerHealth) -> Iterator[Metric]:
    """Yield the metrics of a worker. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    worker, status, seen, name = health.worker, health.status, health.seen, "seekpoint_worker"
    yield CounterMetricFamily(f"{name}_submissions", "Submissions written to the journal.", seen.submissions)
    yield CounterMetricFamily(f"{name}_runs_started", "Runs that began here for the first time.", worker.started)
    yield CounterMetricFamily(f"{name}_runs_resumed", "Runs continued here, after a wait or a crash.", worker.resumed)
    yield runs_family(name, {"finished": worker.finished, "failed": worker.failed, "cancelled": worker.cancelled})
    text = "Runs parked here: their owners had died again and again without progress."
    yield CounterMetricFamily(f"{name}_runs_parked", text, worker.parked)
    yield GaugeMetricFamily(f"{name}_running", "Runs in memory.", status.running)
    yield GaugeMetricFamily(f"{name}_ready", "Processes that wait for room.", status.ready)
    text = "For how long the oldest process has waited for room."
    yield GaugeMetricFamily(f"{name}_queue_age_seconds", text, worker.queue_age_s)
    yield GaugeMetricFamily(f"{name}_waiting", "Processes that wait for a moment or for mail.", status.waiting)
    yield GaugeMetricFamily(f"{name}_partitions", "Partitions that are assigned here.", len(status.partitions))
    yield GaugeMetricFamily(f"{name}_draining", "1 while the worker drains.", int(status.draining))
    yield GaugeMetricFamily(f"{name}_tail_lag_entries", "Offsets that the tails are behind.", seen.tail_lag)
    yield stalled_family(name, health)
    yield from thread_families(name, runtime_of(worker.node))
    yield from node_families(name, worker.metrics, worker.recoveries)
