"""Facts about a journal as it is now: nodes, Redis, partitions, dead letters, effects."""
