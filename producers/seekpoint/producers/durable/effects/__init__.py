"""Effects: calls that change the outside world, and their outcomes."""
