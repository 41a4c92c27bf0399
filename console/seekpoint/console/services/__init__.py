"""What the services behind ``seekpoint serve`` and ``seekpoint doctor`` do."""
