"""Runs of pytest in a process of their own, to test the plugins of tests/support/pytest_plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PLUGINS", "run_pytest"]

PLUGINS = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
"""A PYTHONPATH under which a conftest.py finds the plugins."""


def run_pytest(*arguments: str, cwd: Path, before: Sequence[str] = (), **environ: str) -> str:
    """Run pytest, with the command `before` in front of it, and return what it printed."""
    command = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | environ
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=cwd, env=environment, check=False)
    return done.stdout + done.stderr
