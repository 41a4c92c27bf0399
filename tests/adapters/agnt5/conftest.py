"""Nodes for the tests of AGNT5, and empty registries of its SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from agnt5.agent import AgentRegistry
from agnt5.function import FunctionRegistry
from agnt5.tool import ToolRegistry
from agnt5.workflow import WorkflowRegistry

from seekpoint import Node, VirtualClock
from seekpoint.adapters.agnt5 import SeekpointActivations


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """The SDK's registries are those of the program: each test has empty ones."""
    yield
    for registry in (WorkflowRegistry, FunctionRegistry, ToolRegistry, AgentRegistry):
        registry.clear()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node with a log in memory, whose clock skips waiting."""
    async with Node.in_memory(clock=VirtualClock()) as running:
        yield running


@pytest.fixture
async def activations(node: Node) -> AsyncIterator[SeekpointActivations]:
    """A transport."""
    async with SeekpointActivations(node) as running:
        yield running
