"""The metrics of ``seekpoint serve recovery``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.consumers.recovery_service.recovery_service import RecoveryService


def recovery_families(service: RecoveryService) -> Iterator[Metric]:
    """Yield the metrics of a recovery worker. No label holds a process id: ids are private and too many."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    figures, name = service.figures, "seekpoint_recovery"
    outcomes = CounterMetricFamily(f"{name}_requests", "Requests read, by outcome.", labels=["outcome"])
    for outcome in ("answered", "failed", "expired", "undecodable"):
        outcomes.add_metric([outcome], getattr(figures, outcome))
    yield outcomes
    done = figures.answered + figures.failed + figures.expired
    text = "From reading a request to its acknowledged answer."
    yield SummaryMetricFamily(f"{name}_answer_duration_seconds", text, done, figures.answer_seconds)
    checkpoints = CounterMetricFamily(
        f"{name}_checkpoints", "Checkpoints requested after an answer.", labels=["outcome"]
    )
    checkpoints.add_metric(["saved"], figures.checkpoints)
    checkpoints.add_metric(["failed"], figures.checkpoint_failures)
    yield checkpoints
    text = "Requests that Faust did not deliver and this worker read again."
    yield CounterMetricFamily(f"{name}_passed_over_requests", text, service.delivery.passed_over)
    yield GaugeMetricFamily(f"{name}_waiting_requests", "Requests not read yet.", service.health.lag or 0)
    yield GaugeMetricFamily(
        f"{name}_stalled_seconds", "Seconds without progress while work waited.", service.health.stalled_s
    )
    text = "Requests of the whole group without an answer, on its leader."
    yield GaugeMetricFamily(f"{name}_open_requests", text, figures.open_requests)
    text = "Requests whose deadline passed without an answer, seen by the leader."
    yield CounterMetricFamily(f"{name}_unanswered_requests", text, figures.unanswered)
