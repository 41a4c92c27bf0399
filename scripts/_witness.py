"""A pytest plugin for mutated runs: which test failed first, and that what ran was the copy.

It writes ``{"failed": NODE_ID | null, "strangers": [MODULE, ...]}`` to ``$MUTANT_WITNESS``: strangers are modules
of ours that were imported from elsewhere than the run's folder, so that the mutant was never looked at.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the failures, of set-up and tear-down too."""
    if report.failed:
        _failed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the testimony down, while the imported modules still tell where they came from."""
    home = session.config.rootpath
    places = {name: module.__file__ for name, module in list(sys.modules.items()) if name.startswith("seekpoint.")}
    strangers = sorted(name for name, file in places.items() if file and not Path(file).is_relative_to(home))
    testimony = {"failed": _failed[0] if _failed else None, "strangers": strangers}
    Path(os.environ["MUTANT_WITNESS"]).write_text(json.dumps(testimony))
