"""``LocalCluster``: a real Kafka and a real Valkey on this machine, without Docker."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from seekpoint.compose.brokers import broker_properties, meta_properties, to_text
from seekpoint.compose.cluster_ports import ClusterState
from seekpoint.compose.directory import ClusterDirectory, check_size
from seekpoint.compose.first_requests import ask_for_coordinators, ask_for_producer_ids
from seekpoint.compose.group import Group
from seekpoint.compose.runtime import Runtime
from seekpoint.compose.server_processes import Broker, Launch, Part, PartStatus, Valkey
from seekpoint.compose.setup_phases import STARTING, SetupProgress, log_progress
from seekpoint.schemas.config.private_files import private_directory, write_private
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ClusterFailed, InvalidSetting

_KAFKA_CLIENT = "seekpoint.compose.topic_admin"  # loaded while Java starts: it takes 0.1 s
_STOP_TIMEOUT_S = 20.0
_LOCK_TIMEOUT_S = 5.0  # the watchdog of a killed owner needs time to end the cluster


class LocalCluster:
    """Kafka (1 or 3 brokers) and Valkey on free loopback ports. ``with`` and ``async with`` start and stop it.

    With ``directory=None`` the cluster is temporary and its data is deleted when it stops. With a path the data is
    kept: a later cluster there has the same topics, and the same ports if they are free. The cluster ends with this
    process, even after SIGKILL, unless ``start_detached`` started it. Raises ``ClusterFailed`` with the end of the log
    if a part does not start within ``start_timeout_s``. The first use downloads Kafka and reports to ``progress``.
    """

    def __init__(
        self,
        brokers: int = 1,
        directory: str | Path | None = None,
        *,
        broker_settings: Mapping[str, str] | None = None,
        valkey_settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
        progress: SetupProgress = log_progress,
    ) -> None:
        if sys.platform == "win32":
            raise ClusterFailed(
                "the local cluster does not run on Windows",
                hint="run it in WSL, or use compose/compose.yaml with Docker and set SEEKPOINT_BOOTSTRAP_SERVERS",
            )
        if brokers not in (1, 3):
            raise InvalidSetting("a local cluster has 1 or 3 brokers", setting="brokers", found=brokers)
        self._size = brokers
        self._given_directory = directory
        self._broker_settings = dict(broker_settings or {})
        self._valkey_settings = dict(valkey_settings or {})
        self._start_timeout_s = start_timeout_s
        self._progress = progress
        self._detached = False
        self._home: ClusterDirectory | None = None
        self._state: ClusterState | None = None
        self._group: Group | None = None
        self._parts: tuple[Part, ...] = ()

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers. Each can be killed, paused, resumed or started on its own."""
        return tuple(part for part in self._running if isinstance(part, Broker))

    @property
    def valkey(self) -> Valkey:
        """The Redis-compatible server. It can be killed, paused, resumed or started."""
        return next(part for part in self._running if isinstance(part, Valkey))

    @property
    def bootstrap_servers(self) -> str:
        """The value for ``Settings.bootstrap_servers``."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def redis_url(self) -> str:
        """The value for ``Settings.redis_url``."""
        return f"redis://{self.valkey.address}/0"

    @property
    def directory(self) -> Path:
        """The directory with the data, the logs (``*/*.log``) and the state file."""
        return self._started_home.path

    def settings(self, journal: str = "seekpoint", **overrides: Any) -> Settings:
        """Return settings for this cluster; ``overrides`` are fields of ``Settings``."""
        here = {"bootstrap_servers": self.bootstrap_servers, "redis_url": self.redis_url}
        return Settings(journal=journal, **{**here, **overrides})

    def status(self) -> list[PartStatus]:
        """Return the address, pid and health of each part. Blocks for about a second for each part that hangs."""
        return [part.status() for part in self._running]

    @property
    def _running(self) -> tuple[Part, ...]:
        if not self._parts:
            raise ClusterFailed("the cluster is not started", hint="use it inside `with LocalCluster() as cluster:`")
        return self._parts

    @property
    def _started_home(self) -> ClusterDirectory:
        if self._home is None:
            raise ClusterFailed("the cluster is not started", hint="use it inside `with LocalCluster() as cluster:`")
        return self._home

    def start(self) -> LocalCluster:
        """Start the cluster and wait until all parts answer. Blocks. Idempotent."""
        if self._parts:
            return self
        runtime = Runtime.prepared(self._progress)
        home = ClusterDirectory(self._given_directory or tempfile.mkdtemp(prefix="seekpoint-"))
        if not home.lock(_LOCK_TIMEOUT_S):
            raise _in_use(home)
        return self._start_in(home, runtime)

    def stop(self) -> None:
        """Stop all parts, cleanly if their data is kept, and delete a temporary directory. Idempotent."""
        parts, self._parts = self._parts, ()
        if self._given_directory is not None:
            _stop_cleanly(parts)
        for part in parts:
            part.kill()
        if self._group is not None:
            self._group.close()
            self._group = None
        if self._home is not None:
            self._release(self._home)
            self._home = self._state = None

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> LocalCluster:
        try:
            await _in_thread(self.start)
        except asyncio.CancelledError:
            await _in_thread(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await _in_thread(self.stop)

    @classmethod
    def start_detached(cls, directory: str | Path, brokers: int = 1, **options: Any) -> LocalCluster:
        """Start a cluster that runs until ``attach(directory).stop()``, or return the one that runs there.

        If two processes call this at once, one starts the cluster and the other waits. ``options`` are those of the
        class.
        """
        cluster = cls(brokers, directory, **options)
        cluster._detached = True
        runtime = Runtime.prepared(cluster._progress)
        deadline = time.monotonic() + cluster._start_timeout_s
        while True:
            home = ClusterDirectory(directory)
            if home.lock():
                return cluster._start_in(home, runtime)
            with contextlib.suppress(ClusterFailed):
                running = cls.attach(directory)
                if all(part.answers for part in running.status()):
                    check_size(home, len(running.brokers), brokers)
                    return running
            if time.monotonic() > deadline:
                raise _in_use(home)
            time.sleep(0.1)

    @classmethod
    def attach(cls, directory: str | Path) -> LocalCluster:
        """Return the cluster that runs in ``directory``, whoever started it. Raises ``ClusterFailed`` if none runs."""
        home = ClusterDirectory(directory)
        state = home.read() if home.path.is_dir() else None
        if state is None:
            raise _none_running(home)
        cluster = cls(len(state.brokers), directory)
        cluster._detached = True
        parts = cluster._make_parts(home, state, None)
        if all(part.pid is None for part in parts):
            raise _none_running(home)
        cluster._home, cluster._state, cluster._parts = home, state, parts
        return cluster

    def _start_in(self, home: ClusterDirectory, runtime: Runtime) -> LocalCluster:
        self._home = home
        try:
            self._kill_leftovers(home)
            self._state = state = home.claim(self._size)
            if not self._detached:
                self._group = Group(remove=None if self._given_directory else home.path)
            home.write(state)
            self._progress(STARTING)
            self._write_files(home, state, runtime)
            self._parts = self._make_parts(home, state, runtime)
            for part in self._parts:  # start all parts before waiting
                part.spawn()
            self._wait()
        except BaseException:
            self.stop()
            raise
        if self._detached:
            home.hand_over()
        return self

    def _make_parts(self, home: ClusterDirectory, state: ClusterState, runtime: Runtime | None) -> tuple[Part, ...]:
        group = self._group.id if self._group else None
        launch = Launch(group=group, lock_fd=home.lock_fd, timeout_s=self._start_timeout_s, note=self._note)
        brokers = [
            Broker(node, _broker_path(home, node), client, launch, runtime, state.pids.get(f"broker-{node}"))
            for node, (client, _) in enumerate(state.brokers, start=1)
        ]
        pid = state.pids.get("valkey")
        return (*brokers, Valkey(home.path / "valkey", state.valkey, launch, self._valkey_settings, pid))

    def _write_files(self, home: ClusterDirectory, state: ClusterState, runtime: Runtime) -> None:
        """Write the brokers' settings (ports may have changed), and format the directory of a new broker."""
        for node in range(1, self._size + 1):
            data = _broker_path(home, node) / "data"
            private_directory(data.parent)
            private_directory(data)
            properties = broker_properties(node, state.brokers, data, self._broker_settings)
            write_private(data.parent / "server.properties", to_text(properties))
            logs = Path(properties["log.dirs"].split(",")[0])
            logs.mkdir(parents=True, exist_ok=True)
            if not (logs / "meta.properties").exists():
                write_private(logs / "bootstrap.checkpoint", runtime.checkpoint)
                write_private(logs / "meta.properties", to_text(meta_properties(node, state.cluster_id)))

    def _note(self, name: str, pid: int) -> None:
        """Record a new process in the state file at once, so that `down` finds it even after a failure here."""
        if self._home is not None and self._state is not None:
            self._state.pids[name] = pid
            self._home.write(self._state)

    def _kill_leftovers(self, home: ClusterDirectory) -> None:
        """Kill parts of an earlier cluster that did not end with `stop`: two must never write the same files."""
        state = home.read()
        for part in self._make_parts(home, state, None) if state else ():
            part.kill()

    def _wait(self) -> None:
        import_module(_KAFKA_CLIENT)

        deadline = time.monotonic() + self._start_timeout_s
        for part in reversed(self._parts):  # Valkey first: it starts at once or not at all
            part.wait(deadline)
        for broker in self.brokers:
            ask_for_producer_ids(broker.port)
        ask_for_coordinators(self.brokers[0].port)

    def _release(self, home: ClusterDirectory) -> None:
        if self._given_directory is None:
            shutil.rmtree(home.path, ignore_errors=True)
        elif self._state is not None:
            home.forget(self._state.pids)
        home.release()


def _broker_path(home: ClusterDirectory, node: int) -> Path:
    return home.path / f"broker-{node}"


def _stop_cleanly(parts: tuple[Part, ...]) -> None:
    for part in parts:
        part.terminate()
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    for part in parts:
        part.wait_gone(max(0.0, deadline - time.monotonic()))


def _in_use(home: ClusterDirectory) -> ClusterFailed:
    return ClusterFailed(
        "another cluster uses the directory", directory=str(home.path), hint="seekpoint down, or another directory"
    )


def _none_running(home: ClusterDirectory) -> ClusterFailed:
    return ClusterFailed("no local cluster runs here", directory=str(home.path), hint="seekpoint up")


async def _in_thread(work: Callable[[], object]) -> None:
    """Run blocking ``work`` in a thread, to its end even if the caller is cancelled: half a start cannot be undone."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await running
        raise
