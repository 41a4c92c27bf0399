"""The processes of a journal whose ids begin with a prefix."""

from __future__ import annotations

from seekpoint import Node, State


async def states_of(node: Node, prefix: str) -> list[State]:
    """Return the states of the processes whose ids begin with ``prefix``, as of now."""
    return list((await states_by_id(node, prefix)).values())


async def states_by_id(node: Node, prefix: str) -> dict[str, State]:
    """Return the same by the ids of the processes."""
    found = await node.recover_many([one.process_id async for one in node.processes(prefix=prefix)])
    return {process_id: one.state for process_id, one in found.items() if one.known}
