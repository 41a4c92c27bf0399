"""Explicit branches: concurrent code that replays the same way by construction."""
