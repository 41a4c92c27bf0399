"""Decisions: recorded model calls, their usage and cost."""
