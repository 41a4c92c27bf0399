"""Which tests stay together in one worker of scripts/test."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xdist_scheduler import WorkersByNeed

TEXTS = {
    "tests/console/test_a.py": "pytestmark = pytest.mark.cluster",
    "tests/console/test_b.py": "def test_it(browser: Browser, cluster): ...  # pytest.mark.cluster",
    "tests/consumers/test_c.py": "@pytest.mark.cluster",
    "tests/compose/test_d.py": "@pytest.mark.own_cluster",
    "tests/console/test_e.py": "def test_it(browser: Browser) -> None: ...",
    "tests/schemas/test_f.py": '@pytest.fixture(scope="module")',
    "tests/schemas/test_g.py": "def test_it() -> None: ...",
}


@pytest.fixture
def scheduler(tmp_path: Path) -> Any:
    """The scheduler of a checkout with these files."""
    for name, text in TEXTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found: Any = WorkersByNeed.__new__(WorkersByNeed)
    found.config = SimpleNamespace(rootpath=tmp_path)
    return found


def test_tests_that_need_the_same_stay_together(scheduler: Any) -> None:
    """On one of two Kafkas, or in the browser; a file that makes something for all of its tests stays whole."""
    assert {name: scheduler._split_scope(f"{name}::test_it") for name in TEXTS} == {
        "tests/console/test_a.py": "Kafka of the console",
        "tests/console/test_b.py": "Kafka of the console",
        "tests/consumers/test_c.py": "Kafka",
        "tests/compose/test_d.py": "servers",
        "tests/console/test_e.py": "browser",
        "tests/schemas/test_f.py": "tests/schemas/test_f.py",
        "tests/schemas/test_g.py": "tests/schemas/test_g.py::test_it",
    }
