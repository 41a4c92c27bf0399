"""The directory of a local cluster, with a lock and a state file by which other processes find the cluster.

The parts of the cluster inherit the lock. So the lock is held while any of them runs, however the process that
started them ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from seekpoint.compose.brokers import BrokerPorts, kafka_uuid
from seekpoint.compose.loopback_ports import free_ports, is_free
from seekpoint.schemas.config.private_files import (
    check_own_directory,
    free_lock,
    open_private,
    private_directory,
    private_tree,
    take_lock,
    write_private,
)
from seekpoint.schemas.errors import ClusterFailed, InvalidSetting

__all__ = ["ClusterDirectory", "ClusterState", "check_size"]

_LOCK_INTERVAL_S = 0.05


@dataclass(slots=True, kw_only=True)
class ClusterState:
    """The content of the state file: enough to start the same cluster again, or to find the running one."""

    cluster_id: str
    brokers: list[BrokerPorts]
    valkey: int
    pids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls, brokers: int) -> ClusterState:
        """Return the state of a new cluster on free ports."""
        *ports, valkey = free_ports(2 * brokers + 1)
        pairs = [(ports[2 * index], ports[2 * index + 1]) for index in range(brokers)]
        return cls(cluster_id=kafka_uuid(), brokers=pairs, valkey=valkey)

    def on_free_ports(self) -> ClusterState:
        """Return the state with new ports in place of those that another program uses now."""
        fresh = iter(free_ports(2 * len(self.brokers) + 1))
        again = [
            (_port_or_fresh(client, fresh), _port_or_fresh(controller, fresh)) for client, controller in self.brokers
        ]
        return ClusterState(cluster_id=self.cluster_id, brokers=again, valkey=_port_or_fresh(self.valkey, fresh))


def _port_or_fresh(port: int, fresh: Iterable[int]) -> int:
    return port if is_free(port) else next(iter(fresh))


class ClusterDirectory:
    """The directory of a cluster. Call ``lock`` before writing to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.lock_fd: int | None = None

    @property
    def _state_file(self) -> Path:
        return self.path / "cluster.json"

    def lock(self, timeout_s: float = 0.0) -> bool:
        """Lock the directory. Return False if another process, or a part of an earlier cluster, uses it.

        Raises ``ClusterFailed`` if the directory or something in it is a link or belongs to another user.
        """
        with self._using():
            private_directory(self.path)
            descriptor = open_private(self.path / "lock", os.O_RDWR | os.O_CREAT)
        deadline = time.monotonic() + timeout_s
        while not take_lock(descriptor):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return False
            time.sleep(_LOCK_INTERVAL_S)
        self.lock_fd = descriptor
        try:
            with self._using():
                private_tree(self.path)
        except ClusterFailed:
            self.release()
            raise
        return True

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise ClusterFailed(
                f"the cluster's directory cannot be used: {exc.strerror}",
                directory=str(self.path),
                path=exc.filename,
                hint="remove it if it is not yours, or use a directory of your own: --directory DIR, SEEKPOINT_HOME",
            ) from exc

    def hand_over(self) -> None:
        """Keep the lock only in the parts that inherited it. It is released when the last of them ends."""
        if self.lock_fd is not None:
            os.close(self.lock_fd)
            self.lock_fd = None

    def release(self) -> None:
        """Release the lock, even if a fork of this process still has it open."""
        if self.lock_fd is not None:
            free_lock(self.lock_fd)
            self.hand_over()

    def read(self) -> ClusterState | None:
        """Return the state file's content, or None if there is none. Raises ``ClusterFailed`` if it is damaged."""
        try:
            if os.path.lexists(self.path):
                with self._using():
                    check_own_directory(self.path)
            with os.fdopen(open_private(self._state_file, os.O_RDONLY)) as file:
                raw = json.load(file)
        except FileNotFoundError:
            return None
        except OSError:
            with self._using():
                raise
        except ValueError as exc:
            raise self._damaged() from exc
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return ClusterState(
                cluster_id=str(raw["cluster_id"]),
                brokers=[(int(client), int(controller)) for client, controller in raw["brokers"]],
                valkey=int(raw["valkey"]),
                pids={str(name): int(pid) for name, pid in raw["pids"].items()},
            )
        raise self._damaged()

    def write(self, state: ClusterState) -> None:
        """Replace the state file atomically."""
        write_private(self._state_file, json.dumps(asdict(state), indent=2) + "\n")

    def forget(self, pids: Mapping[str, int]) -> None:
        """Remove ended processes from the state file, but not those of a newer cluster. Ignore a missing directory."""
        with contextlib.suppress(ClusterFailed, OSError):
            state = self.read()
            if state is not None:
                state.pids = {name: pid for name, pid in state.pids.items() if pids.get(name) != pid}
                self.write(state)

    def claim(self, brokers: int) -> ClusterState:
        """Return the state to start with: that of the earlier cluster, or a new one. The directory must be locked."""
        known = self.read()
        if known is None:
            return ClusterState.new(brokers)
        check_size(self, len(known.brokers), brokers)
        return known.on_free_ports()

    def _damaged(self) -> ClusterFailed:
        return ClusterFailed(
            "the cluster's state file cannot be read",
            file=str(self._state_file),
            hint="stop the processes that run there; delete the directory to start with an empty cluster",
        )


def check_size(home: ClusterDirectory, found: int, expected: int) -> None:
    """Raise ``InvalidSetting`` if the directory holds a cluster of another size."""
    if found != expected:
        raise InvalidSetting(
            "the directory holds a cluster of another size",
            directory=str(home.path),
            found=found,
            expected=expected,
            hint="use another directory, or the same number of brokers",
        )
