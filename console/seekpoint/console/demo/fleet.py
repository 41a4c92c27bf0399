"""The fleet: agent nodes as operating system processes, one of which is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from seekpoint.compose.group import Group
from seekpoint.console.demo.worker import node_name

__all__ = ["Fleet"]

_LINE_CHARACTERS_MAX = 400
_FRAME = " |+-"  # what the traceback of a group of errors is drawn with


class Fleet:
    """``nodes`` workers configured in ``folder``. They end with the ``with`` block, or with this process."""

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
        """Return the operating system's process id of a node."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """Kill a node with SIGKILL and wait until it has ended."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.add(name)

    @property
    def working(self) -> list[str]:
        """The running nodes."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def broken(self) -> dict[str, str]:
        """Return the nodes that failed by themselves, each with its last log line."""
        ended = {name: process.poll() for name, process in self._processes.items() if name not in self.killed}
        return {name: f"exit code {code}: {self._last_log_line(name)}" for name, code in ended.items() if code}

    def _last_log_line(self, name: str) -> str:
        """Return the last line of a node's log that has text; in a traceback it is the error."""
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        said = [line.strip(_FRAME) for line in lines if line.strip(_FRAME)]
        return said[-1][:_LINE_CHARACTERS_MAX] if said else "its log is empty"
