"""ActiveGraph's own tests pass with ``SeekpointEventStore`` in the place of ``SQLiteEventStore``.

They are in ActiveGraph's archive of sources, which ``scripts/_venv`` fetches by its hash. They run in a program of
their own, with their own settings. ``suite_deselected.txt`` has what is left out, with the reasons.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint.schemas import Settings
from suite_sources import deselected, passed_in_suite, unpack_suite

HERE = Path(__file__).parent

CONFORMANCE = "test_store_conformance.py::TestSQLiteConformance"
STORES = ["test_event_integrity.py", "test_fork.py", "test_diff.py", "test_promote.py", "test_compaction.py"]
RUNTIME = [
    "test_persistence.py", "test_replay.py", "test_requeue_unfired.py", "test_llm_replay.py",
    "test_authority.py", "test_dev_override.py", "test_event_sinks.py", "test_run_quantum.py", "test_runtime_status.py",
    "test_trace_accessors.py", "test_v1_0_1_patches.py", "test_diligence_pack.py", "test_migration.py", "test_cli.py",
    "test_tool_replay.py", "test_embedding_replay.py",
]  # fmt: skip
"""The other files in which tests make a ``SQLiteEventStore``. Trials of the sandbox are other programs on a file."""
LARGE = "test_persistence.py::test_large_log_save_and_load_under_two_seconds"
"""Allows 5 s for 10,000 events, of which each is acknowledged, on a machine that does nothing else."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ActiveGraph's folder of sources."""
    return unpack_suite("activegraph-1.12.0", tmp_path_factory.mktemp("activegraph"))


def _passed(sources: Path, mode: str, files: list[str], *more: str, **environ: str) -> int:
    left_out = [*more, *deselected(HERE / "suite_deselected.txt")]
    return passed_in_suite(sources, "activegraph_stores", files, mode, path=[HERE], left_out=left_out, environ=environ)


@pytest.mark.timeout(300)
def test_conformance_and_the_tests_of_stores_pass_on_two_nodes_in_turns(sources: Path) -> None:
    """Each store is on the other node: no run is read from an old state, and a stale writer is refused."""
    assert _passed(sources, "two-nodes", [CONFORMANCE, *STORES]) == 89


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_conformance_passes_on_kafka(sources: Path, journal: Settings) -> None:
    """All of it, by two nodes in turns."""
    more = environment(journal)
    assert await asyncio.to_thread(lambda: _passed(sources, "kafka", [CONFORMANCE], **more)) == 11


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["memory", "files", "two-nodes"])
def test_every_test_that_makes_a_store_passes(sources: Path, mode: str) -> None:
    """Those of the runtime, of its command line and of its sinks too."""
    assert _passed(sources, mode, [CONFORMANCE, *STORES, *RUNTIME], LARGE) > 300


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_test_passes_with_pipelined_writes(sources: Path) -> None:
    """But the one of a stale writer: it learns of the other one later."""
    stale = "test_event_integrity.py::test_sqlite_stale_writer_fails_before_graph_projection"
    assert _passed(sources, "pipelined", [CONFORMANCE, *STORES, *RUNTIME], stale) > 300


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
async def test_the_tests_of_stores_pass_on_kafka(sources: Path, journal: Settings) -> None:
    """By two nodes in turns."""
    more = environment(journal)
    assert await asyncio.to_thread(lambda: _passed(sources, "kafka", [CONFORMANCE, *STORES], **more)) == 89
