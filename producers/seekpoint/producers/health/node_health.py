"""The health and the metrics of a node that no worker uses, judged by the progress of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seekpoint.consumers.heartbeats.progress_health import STALL_MAX_S, ProgressHealth
from seekpoint.producers.health.node_metric_families import node_families, runs_family, stalled_family, thread_families
from seekpoint.producers.health.parts_health import PartsHealth
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.schemas.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from prometheus_client import Metric


class NodeHealth(PartsHealth):
    """The health of a node: healthy while its event loop, its tails and its own projector make progress.

    It does not matter how long calls take, and whether Kafka answers: a restart would help neither. But a node whose
    entries Kafka does not acknowledge is not ready. Call ``look`` from the node's event loop; any thread may read.
    """

    def __init__(
        self, runtime: NodeRuntime, stall_max_s: float = STALL_MAX_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stall_max_s)
        self.runtime = runtime
        self._loop, self._tail, self._projector, self._appends, self._threads = (
            ProgressHealth(stall_max_s, clock) for _ in range(5)
        )
        self._seen = (-1, -1)
        self.open = self.waiting = self.pending = 0
        """At the last ``look``: open processes, those of them that wait, and entries without an acknowledgement."""

    def look(self) -> None:
        """Record the progress of all parts."""
        runtime, handles = self.runtime, self.runtime.open_handles()
        self.open, self.pending = len(handles), sum(len(one.pending) for one in handles)
        self.waiting = sum(one.ahead_lifecycle is Lifecycle.AWAITING for one in handles)
        before, self._seen = self._seen, (runtime.tailer.rounds, runtime.metrics.append_s.count)
        self._loop.progress()
        if self._seen[0] != before[0] or runtime.tailer.is_idle:
            self._tail.progress()
        if self._seen[1] != before[1] or not self.pending:
            self._appends.progress()
        if not runtime.body_threads.is_used_up:
            self._threads.progress()
        if runtime.projector is None or runtime.projector.failure is None:
            self._projector.progress()

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds that each part has made no progress."""
        own = {} if self.runtime.projector is None else {"projector": self._projector.stalled_s}
        return {"loop": self._loop.stalled_s, "tail": self._tail.stalled_s, "threads": self._threads.stalled_s, **own}

    @property
    def lag(self) -> int | None:
        """The entries that Kafka has not acknowledged yet."""
        return self.pending

    @property
    def not_ready(self) -> str | None:
        """Why the node does not work yet, or any more; None while it does."""
        if not self.runtime.is_started:
            return "it has not started, or is closed"
        if not self._appends.is_well:
            return f"Kafka has acknowledged no entry for {self._appends.stalled_s:.0f} s"
        return self._stalled_parts() or self.runtime.body_threads.shortage


def node_page(health: NodeHealth) -> Iterator[Metric]:
    """Yield the metrics of a node."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    runtime, name = health.runtime, "seekpoint_node"
    runs = runtime.metrics.runs
    yield CounterMetricFamily(f"{name}_runs_started", "Runs that began here for the first time.", runs.started)
    yield CounterMetricFamily(f"{name}_runs_resumed", "Runs continued here, after an error or a crash.", runs.resumed)
    yield runs_family(name, {"finished": runs.finished, "failed": runs.failed, "cancelled": runs.cancelled})
    yield GaugeMetricFamily(f"{name}_running", "Runs in memory.", runs.running)
    yield GaugeMetricFamily(f"{name}_open", "Processes that the node owns.", health.open)
    yield GaugeMetricFamily(f"{name}_waiting", "Owned processes that wait for a moment or for mail.", health.waiting)
    yield GaugeMetricFamily(f"{name}_pending_entries", "Entries that Kafka has not acknowledged.", health.pending)
    yield stalled_family(name, health)
    yield from thread_families(name, runtime)
    yield from node_families(name, runtime.metrics, runtime.recovery.blocking.recoveries.now())
