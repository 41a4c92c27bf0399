"""The folder of a local cluster: whose it is (a lock), and what another process needs to find it (a state file).

The lock is held by the parts themselves (they inherit it), so it tells whether any of them lives, however the process
that started them ended.
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
    """What is written down: enough to start the same cluster again, or to find the one that runs."""

    cluster_id: str
    brokers: list[BrokerPorts]
    valkey: int
    pids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls, brokers: int) -> ClusterState:
        """A cluster that never ran, on free ports."""
        *ports, valkey = free_ports(2 * brokers + 1)
        pairs = [(ports[2 * index], ports[2 * index + 1]) for index in range(brokers)]
        return cls(cluster_id=kafka_uuid(), brokers=pairs, valkey=valkey)

    def on_free_ports(self) -> ClusterState:
        """The same cluster on the same ports, but for those that somebody has taken since."""
        fresh = iter(free_ports(2 * len(self.brokers) + 1))
        again = [(_kept(client, fresh), _kept(controller, fresh)) for client, controller in self.brokers]
        return ClusterState(cluster_id=self.cluster_id, brokers=again, valkey=_kept(self.valkey, fresh))


def _kept(port: int, fresh: Iterable[int]) -> int:
    return port if is_free(port) else next(iter(fresh))


class ClusterDirectory:
    """A cluster's folder. ``lock`` before writing to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.lock_fd: int | None = None

    @property
    def _state_file(self) -> Path:
        return self.path / "cluster.json"

    def lock(self, timeout_s: float = 0.0) -> bool:
        """Whether the folder is ours now: no other process, and no part of an earlier cluster, uses it.

        Raises ``ClusterFailed`` where it, or something in it, is a link or another user's: others may have made it.
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
        """Leave the lock to the parts that inherited it: it is free when the last of them ends."""
        if self.lock_fd is not None:
            os.close(self.lock_fd)
            self.lock_fd = None

    def release(self) -> None:
        """Let go of the lock for good, also where a fork of this process still has it open."""
        if self.lock_fd is not None:
            free_lock(self.lock_fd)
            self.hand_over()

    def read(self) -> ClusterState | None:
        """The state file's content; None if no cluster ever ran here. Raises ``ClusterFailed`` if it is damaged."""
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
        """Replace the state file in one step: a reader sees the old one or the new one."""
        write_private(self._state_file, json.dumps(asdict(state), indent=2) + "\n")

    def forget(self, pids: Mapping[str, int]) -> None:
        """Strike out processes that are gone; those of a cluster started here since stay. No folder is fine too."""
        with contextlib.suppress(ClusterFailed, OSError):
            state = self.read()
            if state is not None:
                state.pids = {name: pid for name, pid in state.pids.items() if pids.get(name) != pid}
                self.write(state)

    def claim(self, brokers: int) -> ClusterState:
        """The state to start with: what ran here before, else a new cluster. The folder must be locked."""
        known = self.read()
        if known is None:
            return ClusterState.new(brokers)
        check_size(self, len(known.brokers), brokers)
        return known.on_free_ports()

    def _damaged(self) -> ClusterFailed:
        return ClusterFailed(
            "the cluster's state file cannot be read",
            file=str(self._state_file),
            hint="stop what runs there; delete the directory to start anew",
        )


def check_size(home: ClusterDirectory, found: int, expected: int) -> None:
    """Refuse to start a cluster where one of another size is kept. Raises ``InvalidSetting``."""
    if found != expected:
        raise InvalidSetting(
            "the directory holds a cluster of another size",
            directory=str(home.path),
            found=found,
            expected=expected,
            hint="use another directory, or as many brokers as it has",
        )
