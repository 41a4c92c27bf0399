"""The fleet: agent nodes as real processes of the operating system, and the hand that kills one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from seekpoint.compose.group import Group
from seekpoint.console.demo.worker import node_name

__all__ = ["Fleet"]

_WORDS_MAX = 400
_FRAME = " |+-"  # what the traceback of a group of errors is drawn with


class Fleet:
    """``nodes`` workers on the orders in ``folder``. Leaving the ``with`` ends them all, and so does our own death."""

    def __init__(self, folder: Path, nodes: int, *, remove: bool) -> None:
        self._folder = folder
        self._names = [node_name(number) for number in range(1, nodes + 1)]
        self._group = Group(remove=folder if remove else None)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()

    def __enter__(self) -> Fleet:
        for number, name in enumerate(self._names, start=1):
            command = [sys.executable, "-m", "seekpoint.console.demo.worker", str(self._folder), str(number)]
            with (self._folder / f"{name}.log").open("wb") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=self._group.id
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.close()
        for process in self._processes.values():
            process.wait()

    def pid(self, name: str) -> int:
        """The process id of a node."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """SIGKILL, as a power cut: it says goodbye to nobody. Returns once it is gone."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.add(name)

    @property
    def working(self) -> list[str]:
        """The nodes that still run."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def broken(self) -> dict[str, str]:
        """The nodes that ended by themselves, and not well: what each said last."""
        ended = {name: process.poll() for name, process in self._processes.items() if name not in self.killed}
        return {name: f"exit code {code}: {self._last_words(name)}" for name, code in ended.items() if code}

    def _last_words(self, name: str) -> str:
        """The last line of its log that says anything: of a traceback, the error."""
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        said = [line.strip(_FRAME) for line in lines if line.strip(_FRAME)]
        return said[-1][:_WORDS_MAX] if said else "it said nothing"
