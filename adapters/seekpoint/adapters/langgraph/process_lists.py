"""The processes of a journal whose ids begin with a prefix."""

from __future__ import annotations

from typing import Any

from seekpoint import Node, State

__all__ = ["states_of"]


async def states_of(node: Node, prefix: str) -> list[State]:
    """Return the states of the processes whose ids begin with ``prefix``, as of now."""
    runtime: Any = node._runtime
    found = await runtime.recovery.processes()
    return [one.state for process_id, one in sorted(found.items()) if process_id.startswith(prefix)]
