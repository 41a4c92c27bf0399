"""Code that commands share, and the services behind ``seekpoint serve`` and ``seekpoint doctor``."""
