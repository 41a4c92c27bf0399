"""LangGraph's conformance suite for checkpointers, warm, cold and on two nodes that take turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from saver_modes import MODES, NodeMaker, saver_in_mode
from seekpoint import MemoryLog, Node, Settings

CASES, CASES_OF_WRITES = 81, 10
"""What the suite has at the pinned version. It does not know the ninth capability: see ``test_delta_channels``."""


async def failures_of(mode: str, make_node: NodeMaker, part: set[str] | None = None) -> tuple[int, list[str]]:
    """Return how many cases passed, and what failed. ``part`` names capabilities; by default all are asked for."""

    @checkpointer_test(name=f"SeekpointSaver, {mode}")
    async def checkpointer() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        async with saver_in_mode(mode, make_node) as saver:
            yield saver

    report = await validate(checkpointer, capabilities=part)
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


@pytest.mark.cluster
async def test_a_part_of_the_suite_passes_on_kafka(journal: Settings) -> None:
    """Writes of tasks, on two nodes that take turns."""
    assert await failures_of("two_nodes", lambda name: node_on(journal, name), {"put_writes"}) == (CASES_OF_WRITES, [])


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
async def test_the_suite_passes_on_kafka(mode: str, journal: Settings) -> None:
    """All cases of all capabilities."""
    assert await failures_of(mode, lambda name: node_on(journal, name)) == (CASES, [])


def node_on(journal: Settings, name: str) -> Node:
    """Return a node on Kafka, which is not started yet."""
    return Node.connect(replace(journal, node_id=name))
