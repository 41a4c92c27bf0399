"""Checkpoints as LangGraph stores them, for tests of the checkpointer."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

__all__ = ["THREAD", "put", "values_of", "writes_of"]

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


async def put(
    saver: BaseCheckpointSaver[str], values: dict[str, Any], versions: dict[str, Any], *, changed: tuple[str, ...] = (),
    parent: Any = None, metadata: Any = None, checkpoint_id: str = "",
) -> Any:  # fmt: skip
    """Store a checkpoint; ``changed`` names the channels whose values are new, by default all."""
    one: Any = {
        "v": 1, "id": checkpoint_id or str(uuid6(clock_seq=-1)), "ts": "", "channel_values": values,
        "channel_versions": versions, "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    new = {name: versions[name] for name in changed or versions}
    known: Any = metadata or {"source": "loop", "step": 0}
    return await saver.aput(parent or THREAD, one, known, new)


def values_of(found: CheckpointTuple | None) -> dict[str, Any]:
    """Return the channels' values of a checkpoint that must be there."""
    assert found is not None
    return found.checkpoint["channel_values"]


def writes_of(found: CheckpointTuple | None) -> list[Any]:
    """Return the values of the writes that are stored with a checkpoint."""
    assert found is not None
    return [value for _, _, value in found.pending_writes or ()]
