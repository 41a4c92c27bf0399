"""LangGraph's own tests pass with ``SeekpointSaver`` in the place of ``InMemorySaver``.

They are in LangGraph's archive of sources, which ``scripts/_venv`` fetches by its hash. They run in a program of their
own, with their own settings and plugins (``tests/adapters/wheels.txt``). What runs is each test that takes a
checkpointer from a fixture, once. ``LEFT_OUT`` has those that are not run, with the reason.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint.schemas import Settings
from suite_sources import passed_in_suite, unpack_suite

HERE = Path(__file__).parent
SUITE = "langgraph-1.2.24"

PART = ["delta_channel_parallel_order", "delta_channel_exit_mode", "strict_resume", "subgraph_persistence_async"]
"""Order of writes, resumed interrupts, subgraphs."""
ALL = [
    *PART, "checkpoint_migration", "delta_channel_fork", "delta_channel_subgraph", "delta_channel_to_plain",
    "delta_channel_update_state", "interrupt_state", "interruption", "large_cases", "large_cases_async", "pregel",
    "pregel_async", "pydantic", "subgraph_persistence", "time_travel", "time_travel_async",
]  # fmt: skip
"""The files with tests that take a checkpointer."""
LEFT_OUT = ["large_cases.py::test_weather_subgraph[memory]", "large_cases_async.py::test_weather_subgraph[memory]"]
"""They compare all metadata of a streamed message, to which the package ``langchain`` adds its version."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LangGraph's folder of sources."""
    return unpack_suite(SUITE, tmp_path_factory.mktemp("langgraph"))


def _passed(sources: Path, mode: str, files: list[str], **more: str) -> int:
    plugins = sorted((Path(sys.prefix) / "suites").glob("*.whl"))
    assert plugins, "scripts/test fetches them: see tests/adapters/wheels.txt"
    return passed_in_suite(
        sources, "suite_savers", [f"test_{file}.py" for file in files], mode, path=[HERE, *plugins],
        left_out=[f"test_{one}" for one in LEFT_OUT], options=["-o", "addopts=", "-W", "ignore"],
        timeout_s=1_500, environ=more,
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_a_part_passes_on_two_nodes_in_turns(sources: Path) -> None:
    """Each call of the saver goes to the other node: none is answered from an old state."""
    assert _passed(sources, "two-nodes", PART) == 62


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("mode", ["memory", "files", "cold", "two-nodes"])
def test_all_pass(sources: Path, mode: str) -> None:
    """In memory, in files, with nothing in memory, and on two nodes in turns."""
    assert _passed(sources, mode, ALL) == 644


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(1_800)
async def test_all_pass_on_kafka(sources: Path, journal: Settings) -> None:
    """By two nodes in turns."""
    more = environment(journal)
    assert await asyncio.to_thread(lambda: _passed(sources, "kafka", ALL, **more)) == 644
