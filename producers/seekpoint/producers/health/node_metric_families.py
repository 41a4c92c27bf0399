"""The metrics that nodes and workers have in common, for Prometheus. No label holds a process id: ids are private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.producers.health.parts_health import PartsHealth
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.producers.writer.node_metrics import Histogram, NodeMetrics


def node_families(name: str, metrics: NodeMetrics, recoveries: Mapping[Tier, int]) -> Iterator[Metric]:
    """Yield what a node measures; ``name`` is the beginning of each metric's name."""
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    text = "From handing a record to the Kafka client to its acknowledgement."
    yield _histogram(f"{name}_append_seconds", text, metrics.append_s)
    text = "From the request to confirm acknowledged entries until they are confirmed."
    yield _histogram(f"{name}_confirm_seconds", text, metrics.confirm_s)
    calls = HistogramMetricFamily(f"{name}_step_seconds", "Attempts of calls, by their kind.", labels=["kind"])
    for kind, times in metrics.calls_s.items():
        calls.add_metric([kind], buckets=times.buckets(), sum_value=times.sum_s)
    yield calls
    text = "Entries that do not count, because another owner's claim came first."
    yield CounterMetricFamily(f"{name}_fenced_entries", text, metrics.fenced_entries)
    tiers = CounterMetricFamily(f"{name}_recoveries", "States recovered, by tier.", labels=["tier"])
    for tier, count in recoveries.items():
        tiers.add_metric([tier], count)
    yield tiers


def thread_families(name: str, runtime: NodeRuntime) -> Iterator[Metric]:
    """Yield how the threads for plain functions are used, and how often the event loop stood still."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    threads, text = runtime.body_threads, "How often code blocked the event loop for two heartbeats or longer."
    yield CounterMetricFamily(f"{name}_loop_stalls", text, runtime.heartbeater.loop_stalls)

    text = "Plain functions that run on although their time-out is over or their caller was cancelled."
    yield GaugeMetricFamily(f"{name}_late_calls", text, threads.late)
    yield GaugeMetricFamily(
        f"{name}_calls_without_thread", "Plain functions that wait for a free thread.", threads.waiting
    )


def runs_family(name: str, ended: Mapping[str, int]) -> Metric:
    """Return how many runs ended, by their outcome."""
    from prometheus_client.core import CounterMetricFamily

    runs = CounterMetricFamily(f"{name}_runs", "Runs that ended here.", labels=["outcome"])
    for outcome, count in ended.items():
        runs.add_metric([outcome], count)
    return runs


def stalled_family(name: str, health: PartsHealth) -> Metric:
    """Return for how long each part has made no progress."""
    from prometheus_client.core import GaugeMetricFamily

    stalled = GaugeMetricFamily(f"{name}_stalled_seconds", "Seconds without progress, by part.", labels=["part"])
    for part, seconds in health.parts.items():
        stalled.add_metric([part], seconds)
    return stalled


def _histogram(name: str, text: str, times: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    return HistogramMetricFamily(name, text, buckets=times.buckets(), sum_value=times.sum_s)
