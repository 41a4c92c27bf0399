"""The commands of ``seekpoint``, one module for each command or group."""
