"""The services behind ``seekpoint serve`` and workers: they run until they are stopped, with health and metrics."""
