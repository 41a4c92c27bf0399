"""Promptise's own tests pass with ``SeekpointJournal`` in the place of its journals.

They are in its archive of sources, which ``scripts/_venv`` fetches by its hash. They run in a program of their own,
with their own settings. ``suite_deselected.txt`` has what is left out, with the reasons.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint.schemas import Settings
from suite_sources import deselected, passed_in_suite, unpack_suite

HERE = Path(__file__).parent
SUITE = "promptise-1.10.1"

JOURNALS = ["test_journal_rewind.py", "test_runtime_phase3.py", "test_runtime_hardening.py"]
PROCESSES = [
    *JOURNALS, "test_runtime_fix_wiring.py", "test_runtime_fix_process.py", "test_runtime_fix_modules.py",
    "test_runtime_graceful_stop.py", "test_runtime_tool_denied.py", "test_runtime_fix_final.py",
    "test_runtime_mission.py", "test_streaming_tool_turns.py", "test_e2e_runtime.py", "test_runtime_fix_security.py",
    "test_runtime_foundations.py", "test_runtime_extra_tools.py",
]  # fmt: skip
"""The files in which a test makes a journal, or a process that has one."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Promptise's folder of sources."""
    return unpack_suite(SUITE, tmp_path_factory.mktemp("promptise"))


def _passed(sources: Path, mode: str, files: list[str], **more: str) -> int:
    left_out = deselected(HERE / "suite_deselected.txt")
    return passed_in_suite(sources, "suite_journals", files, mode, path=[HERE], left_out=left_out, environ=more)


@pytest.mark.timeout(300)
def test_the_tests_of_journals_pass_on_two_nodes_in_turns(sources: Path) -> None:
    """Each call of a journal goes to the other node: none is answered from an old state."""
    assert _passed(sources, "two-nodes", JOURNALS) == 74


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_the_tests_of_journals_pass_on_kafka(sources: Path, journal: Settings) -> None:
    """By two nodes in turns."""
    more = environment(journal)
    assert await asyncio.to_thread(lambda: _passed(sources, "kafka", JOURNALS, **more)) == 74


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["memory", "files", "two-nodes"])
def test_every_test_that_makes_a_journal_passes(sources: Path, mode: str) -> None:
    """Those of processes, missions, secrets and rewinds too."""
    assert _passed(sources, mode, PROCESSES) == 706
