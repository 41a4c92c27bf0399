"""docs/embedded.md, as a reader follows it: a run, kill -9, the run again, then workers. Without any server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pages import ROOT, blocks

PAGE = ROOT / "docs" / "embedded.md"


def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    """All its commands in one shell: the model is asked once, the mail is sent once, the worker's run ends."""
    (tmp_path / "orders.py").write_text(blocks(PAGE, "python")[0].text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "seekpoint").write_text(f'#!/bin/sh\nexec {sys.executable} -m seekpoint "$@"\n')
    for made in (tmp_path / "bin").iterdir():
        made.chmod(0o755)
    commands = [line[2:] for block in blocks(PAGE, "console") for line in block.text.splitlines()]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    environ["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", "\n".join(commands)], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    out = ran.stdout.splitlines()
    assert out.count("asking the model") == 2, ran  # for case-17, and by the worker for case-19
    assert out.count("sending the mail") == 2, ran
    assert '"sent"' in out, ran
    assert [line.split()[:3] for line in out if line.startswith("mail:1")] == [["mail:1", "effect", "succeeded"]], ran
