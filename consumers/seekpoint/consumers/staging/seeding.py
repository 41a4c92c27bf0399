"""Seeded entries: a process's state at the start of the range, so that a slice folds without the history before it."""

from __future__ import annotations

from typing import Any

__all__ = ["Seeds"]


class Seeds:
    """The states of all selected processes at the starts of their stretches."""

    def send(self, sender: Any, trip: Any, flow: Any, delivered: Any) -> None:
        """Send a seeded entry of each."""
        raise NotImplementedError
