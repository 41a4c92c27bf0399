"""The health port of a service of the console, which says where it is."""

from __future__ import annotations

from seekpoint.console.render.output import announce
from seekpoint.consumers.heartbeats import health_port


class AnnouncedHealthPort(health_port.HealthPort):
    """A health port that says its address when it begins to answer."""

    def __enter__(self) -> AnnouncedHealthPort:
        super().__enter__()
        address = f"http://{self.host}:{self.port}"
        announce("health", f"health on {address}/healthz, metrics on /metrics", address=address)
        return self
