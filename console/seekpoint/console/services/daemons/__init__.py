"""What runs until it is stopped: the services behind ``seekpoint serve`` and workers, their health and metrics."""
