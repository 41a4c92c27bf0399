"""The parts of a local cluster as processes: started, paused, killed, asked whether they answer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from seekpoint.compose.loopback_ports import accepts
from seekpoint.compose.runtime import Runtime, tail
from seekpoint.schemas.config.private_files import open_private, private_directory
from seekpoint.schemas.errors import ClusterFailed

__all__ = ["Broker", "Launch", "Part", "PartStatus", "Valkey"]

_POLL_INTERVAL_S = 0.02
_LOG_BYTES_MAX = 5_000_000
_KILL_TIMEOUT_S = 10.0
_PAUSE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How parts are started: in a process group that dies with its starter, or (None) in sessions of their own."""

    group: int | None
    lock_fd: int | None
    timeout_s: float
    note: Callable[[str, int], None]
    """Told the name and pid of each process as it starts, so that another process can find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One line of ``seekpoint status``."""

    name: str
    address: str
    pid: int | None
    answers: bool


class Part:
    """One process of the cluster, known by its pid: it may have been started by another process than this one."""

    def __init__(self, name: str, directory: Path, port: int, launch: Launch, pid: int | None = None) -> None:
        self.name = name
        self.directory = directory
        self.port = port
        self.launch = launch
        self._pid = pid

    def command(self) -> list[str]:
        """What to run."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves clients now. Blocks for at most a second or so."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """Where clients reach it: ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its process id; None when it does not run. A paused part runs."""
        if self._pid is not None and not _runs(self._pid, self.directory):
            self._pid = None
        return self._pid

    def spawn(self) -> None:
        """Start it, without waiting until it answers. A part that runs is left alone."""
        if self.pid is not None:
            return
        private_directory(self.directory)
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES_MAX:
            self.log.unlink()
        command = self.command()
        launch = self.launch
        with os.fdopen(open_private(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as log:
            started = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=() if launch.lock_fd is None else (launch.lock_fd,),
                process_group=launch.group,
                umask=0o077,  # what it writes is what the journal holds
                start_new_session=launch.group is None,
            )
        self._pid = started.pid
        started.returncode = 0  # it may outlive this object: we look after it by its pid
        launch.note(self.name, started.pid)

    def start(self) -> None:
        """Start it and wait until it answers. Raises ``ClusterFailed`` with its log's tail if it does not."""
        self.spawn()
        self.wait(time.monotonic() + self.launch.timeout_s)

    def wait(self, deadline: float) -> None:
        """Wait until it answers, at most until ``deadline`` (of the monotonic clock)."""
        while not self.answers():
            if self.pid is None:
                raise self.failed("ended instead of coming up")
            if time.monotonic() > deadline:
                raise self.failed(f"did not come up within {self.launch.timeout_s:g} s")
            time.sleep(_POLL_INTERVAL_S)

    def failed(self, what: str) -> ClusterFailed:
        """The error for this part, with the tail of its log."""
        text = f"{self.name} {what}; the end of its log:\n{tail(self.log)}\n"
        return ClusterFailed(text, part=self.name, log=str(self.log))

    def kill(self) -> None:
        """SIGKILL, as a power cut of the process; returns when it is gone."""
        self._signal(signal.SIGKILL)
        self.wait_gone(_KILL_TIMEOUT_S)

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nobody. Returns when it stands still (where /proc tells)."""
        self._signal(signal.SIGSTOP)
        pid, deadline = self.pid, time.monotonic() + _PAUSE_TIMEOUT_S
        # A broker's hundred threads stop one after the other, tens of milliseconds later: one of them still answers.
        while pid is not None and not _stands_still(pid) and time.monotonic() < deadline:
            time.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT: it goes on as if nothing had happened."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop in order (SIGTERM), paused or not, without waiting."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether it is gone within the time."""
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True

    def status(self) -> PartStatus:
        """What ``seekpoint status`` shows of it."""
        pid = self.pid
        return PartStatus(name=self.name, address=self.address, pid=pid, answers=pid is not None and self.answers())

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Broker(Part):
    """One Kafka broker (and controller). Its directory holds ``server.properties``, ``data`` and its log."""

    def __init__(
        self, node: int, directory: Path, port: int, launch: Launch, runtime: Runtime | None, pid: int | None = None
    ) -> None:
        super().__init__(f"broker-{node}", directory, port, launch, pid)
        self.node = node
        self._runtime = runtime

    def command(self) -> list[str]:
        runtime = self._runtime or Runtime.prepared()
        return runtime.kafka(self.directory / "server.properties")

    def answers(self) -> bool:
        from seekpoint.compose.topic_admin import live_brokers

        return accepts(self.port) and self.node in live_brokers(self.address)


class Valkey(Part):
    """The Redis-compatible server: append-only file, no eviction."""

    def __init__(
        self, directory: Path, port: int, launch: Launch, settings: Mapping[str, str], pid: int | None = None
    ) -> None:
        super().__init__("valkey", directory, port, launch, pid)
        self._settings = settings

    def command(self) -> list[str]:
        from seekpoint.compose.runtime import java_and_valkey

        _, server = java_and_valkey()
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.directory),
            "appendonly": "yes",
            "save": "",
            "maxmemory-policy": "noeviction",
            "set-proc-title": "no",  # `ps` then shows whose it is
            **self._settings,
        }
        return [str(server), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 0.5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _runs(pid: int, directory: Path) -> bool:
    """Whether the pid is a live process that was started for this directory, and not a later one with its number."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != pid
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == directory.resolve()
    except FileNotFoundError:
        return not Path("/proc/self").exists() and _listed(pid, directory)
    except (PermissionError, ProcessLookupError):
        return False


def _stands_still(pid: int) -> bool:
    """Whether each of its threads is stopped; True where the system does not tell, or it is gone."""
    try:
        return all(_stopped(task) for task in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return True


def _stopped(task: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile does not run
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    return True


def _listed(pid: int, directory: Path) -> bool:
    """The same where there is no /proc: by its command line."""
    shown = subprocess.run(["ps", "-o", "command=", "-ww", "-p", str(pid)], capture_output=True, check=False)
    return os.fsencode(directory) in shown.stdout
