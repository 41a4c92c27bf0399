"""The fleet: workers as operating system processes, one of which is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from seekpoint.compose.group import Group
from seekpoint.console.demo.demo_worker import node_name
from seekpoint.consumers.heartbeats.heartbeat import from_records
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.schemas.config.settings import Settings

_STOP_S = 5.0
_LOOK_S = 0.05
_LINE_CHARACTERS_MAX = 400
_FRAME = " |+-"  # what the traceback of a group of errors is drawn with


class Fleet:
    """``nodes`` workers, configured in ``folder``. They end with the ``with`` block, or with this process."""

    def __init__(self, folder: Path, nodes: int, *, remove: bool) -> None:
        self._folder = folder
        self._names = [node_name(number) for number in range(1, nodes + 1)]
        self._group = Group(remove=folder if remove else None)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()

    def __enter__(self) -> Fleet:
        for number, name in enumerate(self._names, start=1):
            command = [sys.executable, "-m", "seekpoint.console.demo.demo_worker", str(self._folder), str(number)]
            with (self._folder / f"{name}.log").open("wb") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=self._group.id
                )
        return self

    def __exit__(self, *_: object) -> None:
        self._group.close()
        for process in self._processes.values():
            process.wait()

    async def joined(self, settings: Settings, timeout_s: float) -> None:
        """Wait until the group has assigned partitions to every worker, as the workers' heartbeats say."""
        deadline, reader = time.monotonic() + timeout_s, KafkaReader(settings)
        try:
            expected = min(len(self._names), reader.partitions)
            while len(self.working) == len(self._names) and time.monotonic() < deadline:
                beats = from_records(reader.table("nodes").items()).values()
                workers = [beat.worker for beat in beats if beat.node_id in self._names and beat.worker is not None]
                if sum(bool(worker.partitions) for worker in workers) == expected:
                    return
                await asyncio.sleep(_LOOK_S)
        finally:
            reader.close()

    def pid(self, name: str) -> int:
        """Return the operating system's process id of a worker."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL and wait until it has ended."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.add(name)

    def stop(self) -> None:
        """Ask the workers to end, and wait for them. Those that take too long are killed with the ``with`` block."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            for process in running:
                process.wait(_STOP_S)

    @property
    def working(self) -> list[str]:
        """The running workers."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def broken(self) -> dict[str, str]:
        """Return the workers that failed by themselves, each with its last log line."""
        ended = {name: process.poll() for name, process in self._processes.items() if name not in self.killed}
        stopped = {None, 0, -signal.SIGTERM}  # one that had not started yet does not handle the signal
        return {
            name: f"exit code {code}: {self._last_log_line(name)}"
            for name, code in ended.items()
            if code not in stopped
        }

    def _last_log_line(self, name: str) -> str:
        """Return the last line of a worker's log that has text; in a traceback it is the error."""
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        said = [line.strip(_FRAME) for line in lines if line.strip(_FRAME)]
        return said[-1][:_LINE_CHARACTERS_MAX] if said else "its log is empty"
