"""The directory of a local cluster, with a lock and a state file by which other processes find the cluster.

The parts of the cluster inherit the lock. So the lock is held while any of them runs, however the process that
started them ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from seekpoint.compose.cluster_ports import ClusterState
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

_LOCK_INTERVAL_S = 0.05


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
