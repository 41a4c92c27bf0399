"""The copy loop of a replay: read, select, transform, pace, send, count."""
