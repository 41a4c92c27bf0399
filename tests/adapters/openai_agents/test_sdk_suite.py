"""The SDK's own tests pass with ``SeekpointSession`` in the place of ``SQLiteSession``.

They are in the SDK's archive of sources, which ``scripts/_venv`` fetches by its hash. They run in a program of their
own, with their own settings. ``sdk_deselected.txt`` has what is left out, with the reasons.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_programs import environment
from seekpoint.schemas import Settings
from suite_sources import deselected, passed_in_suite, unpack_suite

HERE = Path(__file__).parent
SUITE = "openai_agents-0.24.0"

SESSIONS = ["memory/test_session.py", "memory/test_session_limit.py"]
WRAPPED = [
    "memory/test_compaction_suffix.py", "memory/test_compaction_model_visibility.py",
    "memory/test_openai_responses_compaction_session.py", "extensions/memory/test_encrypt_session.py",
]  # fmt: skip
FAILURES = ["test_tool_failure_boundaries.py", "test_native_tool_failure_history.py"]
RUNNERS = [
    "test_agent_runner.py", "test_agent_runner_streamed.py", "test_max_turns.py", "test_programmatic_tool_calling.py",
    "test_run_impl_resume_paths.py", "test_soft_cancel.py", "test_tool_batch_failure_history.py",
]  # fmt: skip
"""The other files in which a test makes a ``SQLiteSession``."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK's folder of sources."""
    return unpack_suite(SUITE, tmp_path_factory.mktemp("sdk"))


def _passed(sources: Path, mode: str, files: list[str], **more: str) -> int:
    environ = {"OPENAI_AGENTS_DISABLE_TRACING": "0", **more}
    left_out = deselected(HERE / "sdk_deselected.txt")
    return passed_in_suite(sources, "sdk_sessions", files, mode, path=[HERE], left_out=left_out, environ=environ)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_tests_of_sessions_pass_in_memory(sources: Path) -> None:
    """With compaction and encryption around the session."""
    assert _passed(sources, "memory", [*SESSIONS, *WRAPPED, *FAILURES]) == 399


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_tests_of_sessions_pass_in_files(sources: Path) -> None:
    """Each database of a test is a journal in a file."""
    assert _passed(sources, "files", SESSIONS) == 53


@pytest.mark.timeout(300)
def test_the_tests_of_sessions_pass_on_two_nodes_in_turns(sources: Path) -> None:
    """Each call of a session goes to the other node: none is answered from an old state."""
    assert _passed(sources, "two-nodes", SESSIONS) == 53


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_the_tests_of_sessions_pass_on_kafka(sources: Path, journal: Settings) -> None:
    """By two nodes in turns."""
    more = environment(journal)
    assert await asyncio.to_thread(lambda: _passed(sources, "kafka", SESSIONS, **more)) == 53


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["memory", "files", "two-nodes"])
def test_every_test_that_makes_a_session_passes(sources: Path, mode: str) -> None:
    """Those of the runner too."""
    assert _passed(sources, mode, [*SESSIONS, *WRAPPED, *FAILURES, *RUNNERS]) > 1_250
