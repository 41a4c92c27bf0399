"""LangGraph's conformance suite for checkpointers, warm, cold and on two nodes that take turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from saver_modes import MODES, NodeMaker, saver_in_mode
from seekpoint import MemoryLog, Node

CASES = 81
"""What the suite has at the pinned version. It does not know the ninth capability: see ``test_delta_channels``."""


async def failures_of(mode: str, make_node: NodeMaker) -> tuple[int, list[str]]:
    """Return how many cases passed, and what failed."""

    @checkpointer_test(name=f"SeekpointSaver, {mode}")
    async def checkpointer() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        async with saver_in_mode(mode, make_node) as saver:
            yield saver

    report = await validate(checkpointer)
    assert set(report.results) == {one.value for one in Capability}
    return (
        sum(one.tests_passed for one in report.results.values()),
        [text for one in report.results.values() for text in one.failures or ()],
    )


@pytest.mark.parametrize("mode", MODES)
async def test_the_suite_passes_on_a_log_in_memory(mode: str) -> None:
    """All cases of all capabilities pass, whatever the savers remember."""
    log = MemoryLog()
    assert await failures_of(mode, lambda name: Node.in_memory(log, node_id=name)) == (CASES, [])


@pytest.mark.parametrize("mode", MODES)
async def test_the_suite_passes_on_an_embedded_log(mode: str, tmp_path: Path) -> None:
    """All cases of all capabilities pass on a journal in a file."""
    assert await failures_of(mode, lambda name: Node.local(tmp_path / "journal.db", node_id=name)) == (CASES, [])
