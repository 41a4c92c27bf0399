"""The two guides of the README, as a reader follows them: a run in a file, killed and resumed; workers on Kafka."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_programs import environment
from pages import ROOT, blocks
from seekpoint.schemas.config.settings import Settings

PROGRAM = [sys.executable, "-c", "import sys; from seekpoint.console.cli import main; sys.exit(main())"]
_PATIENCE_S = 60.0


def _agent() -> str:
    """Return the agent of the guide, with a wait of three seconds."""
    (text,) = re.findall(r"`greetings.py`:\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(text).replace("process.sleep(10)", "process.sleep(3)")


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    """The first commands of the README in a shell, without any server: the first step is not executed again."""
    (tmp_path / "greetings.py").write_text(_agent())
    (lines,) = [block for block in blocks(ROOT / "README.md", "console") if "journal" in block.text.lower()][:1]
    script = "\n".join(line.removeprefix("$ ") for line in lines.text.splitlines())
    # The names in the file, not `seekpoint steps`: that takes longer to start than the agent sleeps on a busy machine.
    waits = "until cat runs.db* 2>/dev/null | grep -q sleep:1; do sleep 0.1; done"
    assert "sleep 4" in script
    script = script.replace("sleep 4", waits)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environ, check=False, capture_output=True, text=True, timeout=100
    )
    result, _, *calls = ran.stdout.splitlines()
    assert result == '"goodbye Ada"', ran.stderr
    assert next(call.split()[:4] for call in calls) == ["hello:1", "step", "succeeded", "1"]
    assert [call.split()[0] for call in calls] == ["hello:1", "sleep:1", "goodbye:1"]


@pytest.mark.cluster
@pytest.mark.parametrize("victim", [0, 1])
def test_another_worker_finishes_the_run(journal: Settings, tmp_path: Path, victim: int) -> None:
    """Whichever worker is killed while the run waits, the other one ends it."""
    (tmp_path / "greetings.py").write_text(_agent())
    environ = environment(journal)
    logs = [tmp_path / f"worker-{number}.log" for number in (0, 1)]
    workers = []
    for log in logs:
        with log.open("w") as out:
            workers.append(
                subprocess.Popen([*PROGRAM, "worker", "greetings"], cwd=tmp_path, env=environ, stdout=out, stderr=out)
            )
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not all("Ctrl-C stops it" in log.read_text() for log in logs):
            assert time.monotonic() < deadline, [log.read_text() for log in logs]
            time.sleep(0.05)
        submit = [*PROGRAM, "submit", "visit-1", "--agent", "greetings", "--input", '"Ada"']
        subprocess.run(submit, cwd=tmp_path, env=environ, check=True)
        time.sleep(1)
        workers[victim].kill()
        asked = [*PROGRAM, "result", "visit-1", "--timeout", str(_PATIENCE_S)]
        ended = subprocess.run(asked, cwd=tmp_path, env=environ, check=True, capture_output=True, text=True)
        assert ended.stdout.strip() == '"goodbye Ada"'
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
