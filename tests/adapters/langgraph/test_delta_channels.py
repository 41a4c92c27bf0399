"""Delta channels: a checkpoint has what was written since the last snapshot, and reads walk its ancestors."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from saver_modes import MODES, saver_in_mode
from seekpoint import MemoryLog, Node

Config = dict[str, Any]
DELTA_STEPS: Any = {"counters_since_delta_snapshot": {"log": (1, 1)}}


async def stored_chain(
    saver: BaseCheckpointSaver[str], stored: dict[int, Any], steps: int, parent: Config | None = None
) -> list[Any]:
    """Put checkpoints, each the parent of the next, with the values ``stored`` by step; each has the write ``step``."""
    configs = []
    for step in range(steps):
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        if parent is not None:
            config["configurable"]["checkpoint_id"] = parent["configurable"]["checkpoint_id"]
        has_value, version = step in stored, f"{step}.{uuid4().hex}"
        one = Checkpoint(
            v=1, id=str(uuid6(clock_seq=-1)), ts="", channel_values={"log": stored[step]} if has_value else {},
            channel_versions={"log": version}, versions_seen={}, updated_channels=None,
        )  # fmt: skip
        metadata: Any = {"source": "loop", "step": step, "parents": {}}
        if step + 1 == steps:
            metadata |= DELTA_STEPS
        parent = await saver.aput(config, one, metadata, {"log": version})  # type: ignore[assignment]
        await saver.aput_writes(parent, [("log", step), ("other", -step)], f"task-{step}")  # type: ignore[arg-type]
        configs.append(parent)
    return configs


async def history_of(saver: BaseCheckpointSaver[str], config: Any) -> tuple[list[Any], Any]:
    """Return the values written to the channel, and its seed."""
    found = await saver.aget_delta_channel_history(config=config, channels=["log"])
    return [value for _, _, value in found["log"]["writes"]], found["log"].get("seed", "none")


@pytest.mark.parametrize("mode", MODES)
async def test_writes_come_since_the_nearest_stored_value(mode: str) -> None:
    """The nearest ancestor with a value is the seed; its own writes count, those of the target do not."""
    log = MemoryLog()
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        chain = await stored_chain(saver, {0: _DeltaSnapshot("old"), 2: _DeltaSnapshot("new")}, 5)
        assert await history_of(saver, chain[4]) == ([2, 3], _DeltaSnapshot("new"))
        assert await history_of(saver, chain[2]) == ([0, 1], _DeltaSnapshot("old"))
        newest = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        assert await history_of(saver, newest) == ([2, 3], _DeltaSnapshot("new"))
        assert await saver.aget_delta_channel_history(config=chain[4], channels=[]) == {}


async def test_a_channel_without_a_stored_value_has_no_seed() -> None:
    """The walk ends at the first checkpoint, and an unknown thread has neither writes nor seed."""
    async with Node.in_memory() as node, saver_in_mode("warm", lambda _: node) as saver:
        chain = await stored_chain(saver, {}, 3)
        assert await history_of(saver, chain[2]) == ([0, 1], "none")
        unknown = {"configurable": {"thread_id": "unknown", "checkpoint_ns": ""}}
        assert await history_of(saver, unknown) == ([], "none")


async def test_a_branch_has_the_writes_of_its_own_ancestors() -> None:
    """Two branches that go on from one checkpoint do not see each other's writes."""
    async with Node.in_memory() as node, saver_in_mode("warm", lambda _: node) as saver:
        chain = await stored_chain(saver, {0: _DeltaSnapshot([])}, 3)
        branch = await stored_chain(saver, {}, 2, parent=chain[0])
        assert await history_of(saver, branch[1]) == ([0, 0], _DeltaSnapshot([]))
        assert await history_of(saver, chain[2]) == ([0, 1], _DeltaSnapshot([]))


@pytest.mark.parametrize("mode", MODES)
async def test_prune_keeps_the_ancestors_of_a_delta_channel(mode: str) -> None:
    """Pruning removes what lies before the nearest stored value, and the channel is built as before."""
    log = MemoryLog()
    async with saver_in_mode(mode, lambda name: Node.in_memory(log, node_id=name)) as saver:
        chain = await stored_chain(saver, {0: _DeltaSnapshot("old"), 2: _DeltaSnapshot("new")}, 5)
        await saver.aprune(["t"])
        assert await history_of(saver, chain[4]) == ([2, 3], _DeltaSnapshot("new"))
        left = [one.checkpoint["id"] async for one in saver.alist({"configurable": {"thread_id": "t"}})]
        assert left == [one["configurable"]["checkpoint_id"] for one in chain[:1:-1]]
