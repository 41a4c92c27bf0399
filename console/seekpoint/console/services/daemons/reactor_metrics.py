"""The metrics of ``seekpoint serve reactors``, and the reactors that a module names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from seekpoint.console.services.arguments.import_path import import_module_here, import_object

if TYPE_CHECKING:
    from prometheus_client import Metric

    from seekpoint.console.services.daemons.sweeping import SweepingService
    from seekpoint.consumers import Reactor

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
