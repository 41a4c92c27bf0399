"""The processes of a journal whose ids begin with a prefix."""

from __future__ import annotations

from seekpoint import Node, State


async def states_of(node: Node, prefix: str) -> list[State]:
    """Return the states of the processes whose ids begin with ``prefix``, as of now."""
    found = await node.recover_many([one.process_id async for one in node.processes(prefix=prefix)])
    return [one.state for one in found.values() if one.known]
