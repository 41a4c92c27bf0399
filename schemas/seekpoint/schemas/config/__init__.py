"""Settings, limits, secrets, and the private files that hold them."""
