"""What a newcomer waits for: the installation, the first run, a run resumed after kill -9. Beside DBOS on SQLite.

Each system gets an empty virtual environment, and pip an empty cache. Seekpoint's wheel is built from the checkout
before, which is not counted: a newcomer's comes from the package index. The agent has two steps; the second one waits
for a file where the run is to be killed. A time is that of a whole program, from its start to its end. The rounds take
turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from _table import Table, arguments, p50, progress

ROOT = Path(__file__).resolve().parents[2]
INSTALLS, RUNS = 1, 7
PATIENCE_S = 120.0

STEPS = """
import os, time

def hello(name):
    open("said", "w").close()
    return f"hello {name}"

def goodbye(name):
    while not os.path.exists("go"):
        time.sleep(0.01)
    return f"goodbye {name}"
"""

OURS = """
from seekpoint import agent
from greeting_steps import goodbye, hello

@agent("greetings")
async def greetings(process, name):
    await process.step("hello", hello, name)
    return await process.step("goodbye", goodbye, name)
"""

THEIRS = """
import sys
from dbos import DBOS, SetWorkflowID
from greeting_steps import goodbye, hello

DBOS(config={"name": "greetings", "system_database_url": "sqlite:///runs.db", "run_admin_server": False})
say_hello, say_goodbye = DBOS.step()(hello), DBOS.step()(goodbye)

@DBOS.workflow()
def greetings(name):
    say_hello(name)
    return say_goodbye(name)

DBOS.launch()
with SetWorkflowID(sys.argv[1]):
    print(DBOS.start_workflow(greetings, "Ada").get_result(), flush=True)
DBOS.destroy()
"""


@dataclass
class System:
    """One of the two, in a folder of its own."""

    name: str
    folder: Path
    program: str
    """The text of its program ``greetings.py``."""
    requirement: str
    words: tuple[str, ...]
    """The program's command line, after which the id of the run comes; the first word lies in the environment."""
    more: tuple[str, ...] = ()
    """What follows the id."""
    install_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    resume_s: list[float] = field(default_factory=list)

    def install(self) -> None:
        """Time ``pip install`` in a new environment."""
        subprocess.run([sys.executable, "-m", "venv", "--clear", self.folder / "venv"], check=True)
        pip = [str(self.folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        began = time.perf_counter()
        subprocess.run([*pip, "install", "--quiet", "--no-cache-dir", self.requirement], check=True)
        self.install_s.append(time.perf_counter() - began)
        (self.folder / "greeting_steps.py").write_text(STEPS)
        (self.folder / "greetings.py").write_text(self.program)

    def first_run(self, number: int) -> None:
        """Time a run in a new file, from the program's start to its end."""
        for left in self.folder.glob("runs.db*"):
            left.unlink()
        (self.folder / "go").touch()
        began = time.perf_counter()
        self._check(self._start(f"visit-{number}"))
        self.first_s.append(time.perf_counter() - began)

    def resumed_run(self, number: int) -> None:
        """Kill a run in its second step; time the program that resumes it."""
        (self.folder / "go").unlink()
        (self.folder / "said").unlink()
        killed = self._start(f"killed-{number}")
        until = time.monotonic() + PATIENCE_S
        while not (self.folder / "said").exists():
            assert time.monotonic() < until, killed.communicate()
            time.sleep(0.01)
        time.sleep(1.0)  # the result of the first step is recorded
        killed.kill()
        killed.communicate()
        (self.folder / "said").unlink()
        (self.folder / "go").touch()
        began = time.perf_counter()
        self._check(self._start(f"killed-{number}"))
        self.resume_s.append(time.perf_counter() - began)
        assert not (self.folder / "said").exists(), f"{self.name} executed the first step again"
        (self.folder / "said").touch()

    def _start(self, process_id: str) -> subprocess.Popen[str]:
        program = self.folder / "venv" / "bin" / self.words[0]
        return subprocess.Popen(
            [program, *self.words[1:], process_id, *self.more], cwd=self.folder, text=True,
            env={"PATH": "/usr/bin:/bin", "SEEKPOINT_JOURNAL_URL": "sqlite:///runs.db"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _check(self, program: subprocess.Popen[str]) -> None:
        out, told = program.communicate(timeout=PATIENCE_S)
        assert "goodbye Ada" in out, f"{self.name} said:\n{out}{told}"


def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--installs", type=int, default=INSTALLS, help="how often each is installed")
    options = parser.parse_args()
    table = Table("first_minute")
    with tempfile.TemporaryDirectory(prefix="seekpoint-bench-") as made:
        ours, theirs = systems = both(Path(made))
        for number in range(options.installs):
            for one in systems:
                progress(f"installing {one.name}, {number + 1}/{options.installs}")
                one.install()
        for number in range(RUNS):
            for one in systems:
                progress(f"runs of {one.name}, {number + 1}/{RUNS}")
                one.first_run(number)
                one.resumed_run(number)
    rows = (
        ("pip install, empty cache", "install_s"), ("first run, in a new file", "first_s"),
        ("run resumed after kill -9", "resume_s"),
    )  # fmt: skip
    for what, name in rows:
        mine, other = p50(getattr(ours, name)), p50(getattr(theirs, name))
        table.row(what=what, seekpoint_s=mine, dbos_s=other, ratio=mine / other)
        table.at_most(f"{what}, times DBOS", bar=1.0, value=mine / other)
    return table.finish(json=options.json)


def both(folder: Path) -> tuple[System, System]:
    """Build the wheel; return the two systems, not installed yet."""
    progress("building the wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--wheel-dir",
         folder, ROOT],
        check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
    ours = System(
        "Seekpoint", folder / "ours", OURS, str(wheel), ("seekpoint", "run"),
        ("--agent", "greetings:greetings", "--input", '"Ada"'),
    )  # fmt: skip
    return ours, System("DBOS", folder / "theirs", THEIRS, "dbos", ("python", "greetings.py"))


if __name__ == "__main__":
    sys.exit(main())
