"""The tail: follow the partitions that a node works in."""
