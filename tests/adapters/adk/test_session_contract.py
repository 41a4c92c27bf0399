"""The contract of session services, on one node, with nothing in memory, and on two nodes that take turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from google.adk.sessions import BaseSessionService

from seekpoint import MemoryLog, Node, Settings
from session_service_contract import SessionServiceContract
from session_services import MODES, in_turns, service_in_mode


@pytest.fixture(params=MODES)
async def service(request: pytest.FixtureRequest) -> AsyncIterator[BaseSessionService]:
    """A service in that mode."""
    log = MemoryLog()
    async with service_in_mode(request.param, lambda name: Node.in_memory(log, node_id=name)) as opened:
        yield opened


class TestModes(SessionServiceContract):
    """Inherited."""


async def _check_all(nodes: list[Node]) -> None:
    """Each part of the contract, with sessions of its own: to open nodes takes longer than all of them."""
    contract = SessionServiceContract()
    names = [name for name in dir(contract) if name.startswith("test_")]
    assert len(names) > 15
    for name in names:
        scopes = [("app:",), ("user:",)] if name == "test_a_change_replaces_a_value" else [()]
        for number, given in enumerate(scopes):
            try:
                await getattr(contract, name)(in_turns(nodes, f"{name}-{number}"), *given)
            except BaseException as exc:
                exc.add_note(f"in {name}{given}")
                raise


async def test_two_nodes_of_one_file_keep_the_contract(tmp_path: Path) -> None:
    """They take turns at each call."""
    async with AsyncExitStack() as stack:
        nodes = [Node.local(tmp_path / "runs.db", node_id=f"n{number}") for number in range(2)]
        await _check_all([await stack.enter_async_context(node) for node in nodes])


@pytest.mark.cluster
async def test_two_nodes_of_one_kafka_keep_the_contract(journal: Settings) -> None:
    """They take turns at each call."""
    async with AsyncExitStack() as stack:
        nodes = [Node.connect(replace(journal, node_id=f"n{number}")) for number in range(2)]
        await _check_all([await stack.enter_async_context(node) for node in nodes])
