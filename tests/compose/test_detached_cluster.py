"""Clusters and the processes that start them: one ends with its starter, the other lives on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import pytest

from seekpoint.compose import LocalCluster
from seekpoint.schemas.errors import ClusterFailed, InvalidSetting

pytestmark = pytest.mark.own_cluster

STARTER = """
import sys, time
from seekpoint.compose import LocalCluster
with LocalCluster(directory=sys.argv[1] if len(sys.argv) > 1 else None) as cluster:
    print(cluster.directory, *(part.pid for part in cluster.status()), flush=True)
    time.sleep(600)
"""
DETACHER = """
import sys
from seekpoint.compose import LocalCluster
print(LocalCluster.start_detached(sys.argv[1]).bootstrap_servers)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nothing runs afterwards."""
    yield tmp_path
    with contextlib.suppress(ClusterFailed):
        LocalCluster.attach(tmp_path).stop()


def exists(pid: int) -> bool:
    """Whether the process does anything any more (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("durable", [False, True], ids=["temporary", "durable"])
def test_a_starter_killed_by_sigkill_leaves_no_process(durable: bool, tmp_path: Path) -> None:
    """Not even a paused part; a temporary directory goes too."""
    command = [sys.executable, "-c", STARTER, *([str(tmp_path)] if durable else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        folder, *numbers = starter.stdout.readline().split()
        pids = [int(number) for number in numbers]
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGSTOP)
        starter.kill()
    deadline = monotonic() + 60
    while any(map(exists, pids)) or (not durable and Path(folder).exists()):
        assert monotonic() < deadline, f"{pids} or {folder} are still there"
        sleep(0.02)
    if durable:
        with LocalCluster(directory=folder) as again:
            assert all(part.answers for part in again.status())


def test_a_detached_cluster_outlives_its_starter_and_is_found(directory: Path) -> None:
    """Another process attaches to it, uses it, stops it; then there is none, and its data waits for the next."""
    started = subprocess.run(
        [sys.executable, "-c", DETACHER, str(directory)], capture_output=True, text=True, check=True
    )
    cluster = LocalCluster.attach(directory)
    assert cluster.bootstrap_servers == started.stdout.strip()
    assert all(part.answers for part in cluster.status())
    cluster.stop()
    with pytest.raises(ClusterFailed, match="no local cluster runs"):
        LocalCluster.attach(directory)
    with LocalCluster(directory=directory) as again:
        assert again.bootstrap_servers == started.stdout.strip()


def test_two_detached_starts_at_once_give_one_cluster(directory: Path) -> None:
    """One starts it, the other waits for it."""

    def start(_: int) -> str:
        command = [sys.executable, "-c", DETACHER, str(directory)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(start, range(2))
    assert first == second
    assert all(part.answers for part in LocalCluster.attach(directory).status())


def test_a_part_started_through_an_attached_cluster_is_found_too(directory: Path) -> None:
    """The state file follows each start; and a cluster of another size is refused there."""
    LocalCluster.start_detached(directory)
    attached = LocalCluster.attach(directory)
    attached.valkey.kill()
    attached.valkey.start()
    assert LocalCluster.attach(directory).valkey.pid == attached.valkey.pid
    with pytest.raises(InvalidSetting, match="of another size"):
        LocalCluster.start_detached(directory, brokers=3)


def test_a_start_ends_the_processes_of_a_broken_cluster(directory: Path) -> None:
    """A part that nobody's lock covers must not share its files with a new one."""
    first = LocalCluster.start_detached(directory)
    first.valkey.kill()
    attached = LocalCluster.attach(directory)
    attached.valkey.start()  # by a process that does not hold the lock
    attached.brokers[0].kill()
    stray = attached.valkey.pid
    assert stray
    fresh = LocalCluster.start_detached(directory)
    assert fresh.valkey.pid != stray
    assert not exists(stray)
    first.stop()  # a handle of old: what was started since is not its own
    assert LocalCluster.attach(directory).valkey.pid == fresh.valkey.pid


def test_an_unused_directory_has_no_running_cluster(tmp_path: Path) -> None:
    """Attaching does not make a directory."""
    with pytest.raises(ClusterFailed, match="no local cluster runs"):
        LocalCluster.attach(tmp_path / "never")
    assert not (tmp_path / "never").exists()
