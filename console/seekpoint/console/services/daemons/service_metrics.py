"""The metrics of ``seekpoint serve reactors`` and ``serve recovery``, and the reactors that a module names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from seekpoint.console.services.arguments.import_path import import_module_here, import_object

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.console.services.daemons.sweeping import SweepingService
    from seekpoint.consumers import Reactor
    from seekpoint.consumers.recovery_service.recovery_service import RecoveryService

_FORM = "MODULE[:REACTOR]"


def reactors_in(names: Sequence[str]) -> list[Reactor]:
    """Return the reactors that ``module:reactor`` names, or all reactors of ``module``. Raises ``BadParameter``."""
    from seekpoint.consumers import Reactor

    found: list[Reactor] = []
    for name in names:
        if ":" in name:
            named: list[Any] = [import_object(name, _FORM, _FORM)]
        else:
            named = [one for one in vars(import_module_here(name, _FORM)).values() if isinstance(one, Reactor)]
        if not named or not isinstance(named[0], Reactor):
            raise typer.BadParameter(
                f"{name} has no reactor: put @reactor(NAME, kinds=[...]) above a function", param_hint=_FORM
            )
        found += named
    return found


def reactor_families(service: SweepingService) -> Iterator[Metric]:
    """Yield the metrics of one member."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    figures, name = service.figures, "seekpoint_reactors"
    yield CounterMetricFamily(f"{name}_entries", "Entries of the journal that were read.", figures.entries)
    calls = CounterMetricFamily(f"{name}_calls", "Calls of reactors, by outcome.", labels=["outcome"])
    calls.add_metric(["done"], figures.reactions)
    calls.add_metric(["failed"], figures.failed_attempts)
    yield calls
    text = "Entries that a reactor was not able to handle."
    yield CounterMetricFamily(f"{name}_dead_letters", text, figures.dead_letters)
    text = "Entries of the right kind that the fold does not apply."
    yield CounterMetricFamily(f"{name}_not_applied_entries", text, figures.not_applied)
    yield swept_family({} if service.sweep is None else service.sweep.found)
    text = "Entries that Faust did not deliver and this member read again."
    yield CounterMetricFamily(f"{name}_passed_over_entries", text, service.delivery.passed_over)
    yield GaugeMetricFamily(f"{name}_waiting_entries", "Entries not handled yet.", service.health.lag or 0)
    text = "Seconds without progress while work waited."
    yield GaugeMetricFamily(f"{name}_stalled_seconds", text, service.health.stalled_s)


def swept_family(found: Mapping[str, int]) -> Metric:
    """Return the metric of the sweep, from its counts by reason."""
    from prometheus_client.core import CounterMetricFamily

    swept = CounterMetricFamily("seekpoint_swept", "What the sweep found: no worker did it in time.", labels=["reason"])
    for reason in ("moment", "mail", "run", "schedule"):
        swept.add_metric([reason], found.get(reason, 0))
    return swept


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
