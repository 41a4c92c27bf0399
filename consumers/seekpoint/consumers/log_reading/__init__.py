"""Read the log: decode and fold entries, find the readable end, detect a truncated log."""
