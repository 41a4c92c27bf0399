"""Without what Windows lacks: there is none here, so a program takes away what it does not have."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_but_the_local_cluster_works_without_posix() -> None:
    """Every module loads, the tutorial runs, files are written, services are told to stop, commands answer."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    program = ROOT / "tests" / "support" / "console" / "as_on_windows.py"
    ran = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environ, check=False, timeout=110
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.endswith("all is well\n")
    loaded = next(line for line in ran.stdout.splitlines() if line.endswith("modules"))
    assert int(loaded.split()[0]) > 200
    assert ran.stderr.count("error: the local cluster does not run on Windows") == 2
    assert "Traceback" not in ran.stderr


def test_the_extra_of_the_local_cluster_installs_nothing_on_windows() -> None:
    """There is no such Valkey: `pip install seekpoint[local]` must not fail for it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["local"]
    assert all(each == "seekpoint[kafka]" or each.endswith("; sys_platform != 'win32'") for each in extras["local"])
