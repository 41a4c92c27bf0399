"""A test that hangs fails by name, with the stacks that say where; interrupts work in a run in the background."""

from __future__ import annotations

from pathlib import Path

from pytest_runs import PLUGINS, run_pytest

CHECKOUT = Path(__file__).parents[2]
CONFTEST = """
import timeouts
from xdist_scheduler import WorkersByNeed

timeouts.AGAIN_S = 1.0

def pytest_configure(config):
    limits = timeouts.Timeouts()
    config.add_cleanup(limits.close)
    config.pluginmanager.register(limits)

def pytest_xdist_make_scheduler(config, log):
    return WorkersByNeed(config, log)
"""
TESTS = """
import asyncio, signal, threading

import pytest

async def deep():
    await asyncio.sleep(3600)

async def test_of_tasks():
    await asyncio.create_task(deep(), name="deep")

@pytest.fixture
def kept():
    yield
    threading.Event().wait()

def test_of_teardown(kept):
    assert False, "it failed before"

def test_in_c_code():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as where Python code does not run
    threading.Event().wait()

@pytest.mark.parametrize("number", range(5))
def test_that_passes(number):
    pass
"""


def test_a_test_that_hangs_fails_by_name_and_the_others_are_run(tmp_path: Path) -> None:
    """In a task, in the teardown of a test that had failed already, and where no Python code can be interrupted."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(TESTS)
    options = ["-n", "2", "--timeout", "1", "--asyncio-mode", "auto", "-o", "pythonpath=", str(tmp_path)]
    said = run_pytest(*options, cwd=tmp_path, PYTHONPATH=PLUGINS)
    assert "FAILED test_hanging.py::test_of_tasks - Failed: Timeout (>1.0 s)" in said, said
    assert "--- task deep" in said
    assert "line 7, in deep" in said
    assert "ERROR test_hanging.py::test_of_teardown - Failed: Timeout (>1.0 s)" in said
    assert "FAILED test_hanging.py::test_in_c_code - worker 'gw" in said
    assert "line 22 in test_in_c_code" in said
    assert "3 failed, 5 passed, 1 error" in said


def test_interrupts_work_where_sigint_is_ignored() -> None:
    """As in a job that a script or ``nohup`` started in the background: its programs inherit that."""
    tests = [
        "tests/producers/durable/decisions/test_plain_code.py::test_code_that_swallows_a_call_off_does_not_spend_the_next_one",
        "tests/producers/test_interrupts.py::test_an_interrupted_step_is_called_off",
    ]
    ignores = ["sh", "-c", 'trap "" INT && exec "$@"', "sh"]
    said = run_pytest("-n", "0", "-q", "--timeout", "30", *tests, cwd=CHECKOUT, before=ignores)
    assert "2 passed" in said, said
