"""The copy of a replay: read, select, transform, pace, send, count and compare records."""
