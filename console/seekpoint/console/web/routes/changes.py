"""The calls of the API that change something: all actions."""

from __future__ import annotations

from seekpoint.console.web.acting import effects, gates
from seekpoint.console.web.declarations import Operation, Page

__all__ = ["ACTIONS", "OPERATIONS", "PAGES"]

ACTIONS = (*gates.ACTIONS, *effects.ACTIONS)

PAGES: tuple[Page, ...] = ()
OPERATIONS: tuple[Operation, ...] = tuple(action.operation() for action in ACTIONS)
