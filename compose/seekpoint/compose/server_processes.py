"""The parts of a local cluster as processes, which can be started, paused, killed and probed."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from seekpoint.compose.cluster_ports import accepts
from seekpoint.compose.runtime import Runtime, jvm_crashed, tail
from seekpoint.compose.runtime_cache import forget_classes
from seekpoint.schemas.config.private_files import open_private, private_directory
from seekpoint.schemas.errors import ClusterFailed

_POLL_INTERVAL_S = 0.02
_LOG_BYTES_MAX = 5_000_000
_KILL_TIMEOUT_S = 10.0
_PAUSE_TIMEOUT_S = 10.0

_logger = logging.getLogger("seekpoint.compose")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The start of parts: in a process group that ends with its starter, or in sessions of their own (None)."""

    group: int | None
    lock_fd: int | None
    timeout_s: float
    note: Callable[[str, int], None]
    """Called with the name and pid of each started process, so that other processes can find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """The status of a part: a row of ``seekpoint status``."""

    name: str
    address: str
    pid: int | None
    answers: bool


class Part:
    """A process of the cluster, identified by its pid. Another process may have started it."""

    def __init__(self, name: str, directory: Path, port: int, launch: Launch, pid: int | None = None) -> None:
        self.name = name
        self.directory = directory
        self.port = port
        self.launch = launch
        self._pid = pid

    def command(self) -> list[str]:
        """Return the command line."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves clients. Blocks for about a second at most."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The address for clients: ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The log file with its output."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The part's process id, or None if it does not run. A paused part counts as running."""
        if self._pid is not None and not _is_running(self._pid, self.directory):
            self._pid = None
        return self._pid

    def spawn(self) -> None:
        """Start it without waiting until it answers. Do nothing if it runs."""
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
                umask=0o077,  # its files hold the journal's data
                start_new_session=launch.group is None,
            )
        self._pid = started.pid
        started.returncode = 0  # the part may outlive this object, so it is tracked by its pid
        launch.note(self.name, started.pid)

    def start(self) -> None:
        """Start it and wait until it answers. Raises ``ClusterFailed`` with the end of its log if it does not."""
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
        """Return the error for this part, with the end of its log."""
        text = f"{self.name} {what}; the end of its log:\n{tail(self.log)}\n"
        return ClusterFailed(text, part=self.name, log=str(self.log))

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it has ended."""
        self._signal(signal.SIGKILL)
        self.wait_gone(_KILL_TIMEOUT_S)

    def pause(self) -> None:
        """Pause it with SIGSTOP: it keeps its connections and does not answer. Wait until it has stopped."""
        self._signal(signal.SIGSTOP)
        pid, deadline = self.pid, time.monotonic() + _PAUSE_TIMEOUT_S
        # A broker's hundred threads stop one by one over tens of milliseconds, and a running one still answers.
        while pid is not None and not _is_stopped(pid) and time.monotonic() < deadline:
            time.sleep(0.001)

    def resume(self) -> None:
        """Resume it with SIGCONT."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM, even if it is paused, without waiting."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait for its end. Return False on a time-out."""
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True

    def status(self) -> PartStatus:
        """Return its status for ``seekpoint status``."""
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
        self._runtime = self._runtime or Runtime.prepared()
        return self._runtime.kafka(self.directory / "server.properties")

    def wait(self, deadline: float) -> None:
        """Wait until it answers. Start it without the recorded classes if its JVM crashed with them."""
        try:
            super().wait(deadline)
        except ClusterFailed:
            runtime = self._runtime
            if self.pid is not None or runtime is None or runtime.classes is None or not jvm_crashed(self.log):
                raise
            _logger.warning("Java crashed with its cache %s, which is not used any more", runtime.classes)
            forget_classes(runtime.classes)
            self._runtime = replace(runtime, classes=None)
            self.spawn()
            super().wait(deadline)

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
        from seekpoint.compose.runtime import valkey_program

        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.directory),
            "appendonly": "yes",
            "save": "",
            "maxmemory-policy": "noeviction",
            "set-proc-title": "no",  # keep the directory visible in `ps`
            **self._settings,
        }
        return [str(valkey_program()), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 0.5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _is_running(pid: int, directory: Path) -> bool:
    """Whether the pid is a live process of this directory, and not a later process with the same pid."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != pid
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == directory.resolve()
    except FileNotFoundError:
        return not Path("/proc/self").exists() and _is_listed(pid, directory)
    except (PermissionError, ProcessLookupError):
        return False


def _is_stopped(pid: int) -> bool:
    """Whether all its threads are stopped. True without /proc, and if the process has ended."""
    try:
        return all(_is_thread_stopped(task) for task in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return True


def _is_thread_stopped(task: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    return True


def _is_listed(pid: int, directory: Path) -> bool:
    """Whether the command line of the pid names the directory, for systems without /proc."""
    shown = subprocess.run(["ps", "-o", "command=", "-ww", "-p", str(pid)], capture_output=True, check=False)
    return os.fsencode(directory) in shown.stdout
