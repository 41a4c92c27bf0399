"""What is true of a journal now: nodes, Redis, partitions, dead letters, effects."""
