"""Make the tracer that the setting ``tracing`` asks for. Programs without one start without its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.config.settings import Settings

if TYPE_CHECKING:
    from seekpoint.producers.tracing.tracer import Tracer


def tracer_of(settings: Settings) -> Tracer | None:
    """Return the tracer that the setting asks for. Raises ``InvalidSetting`` if opentelemetry is not installed."""
    if settings.tracing == "off":
        return None
    from seekpoint.producers.tracing.otel_tracer import OpenTelemetryTracer

    return OpenTelemetryTracer(settings)
