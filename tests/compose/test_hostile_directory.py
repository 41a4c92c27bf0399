"""A cluster's folder that somebody else has prepared: a checkout with links in it, a folder of another user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from seekpoint.compose import LocalCluster
from seekpoint.compose.cluster_ports import ClusterState
from seekpoint.compose.directory import ClusterDirectory
from seekpoint.schemas.errors import ClusterFailed


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's, outside."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "lock",
        "cluster.json",
        "cluster.json.new",
        ".gitignore",
        "broker-1/server.properties",
        "broker-1/broker-1.log",
        "broker-1/data/meta.properties",
        "valkey/valkey.log",
        "valkey/appendonlydir/x",
    ],
)
def test_a_link_in_the_folder_stops_the_start(tmp_path: Path, victim: Path, name: str) -> None:
    """Whatever it is called; the error names it, and nothing is written through it."""
    home = tmp_path / ".seekpoint"
    (home / name).parent.mkdir(parents=True)
    (home / name).symlink_to(victim)
    with pytest.raises(ClusterFailed, match="cannot be used") as caught:
        ClusterDirectory(home).lock()
    assert "--directory" in caught.value.hint
    assert name in str(caught.value)
    assert victim.read_text() == "precious"


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    """A checkout can hold one; the folder it leads to is the user's own."""
    (tmp_path / "documents").mkdir()
    (tmp_path / ".seekpoint").symlink_to(tmp_path / "documents")
    for call in (ClusterDirectory(tmp_path / ".seekpoint").lock, ClusterDirectory(tmp_path / ".seekpoint").read):
        with pytest.raises(ClusterFailed, match="symbolic link"):
            call()
    assert list((tmp_path / "documents").iterdir()) == []


def test_a_state_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where Kafka and Redis are, and which processes to stop."""
    directory = ClusterDirectory(tmp_path / "home")
    assert directory.lock()
    directory.write(ClusterState.new(1))
    directory.release()
    assert directory.read() is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ClusterFailed, match="another user"):
        directory.read()
    with pytest.raises(ClusterFailed, match="another user"):
        LocalCluster.attach(tmp_path / "home")


@pytest.mark.cluster
def test_only_the_owner_can_access_the_files_of_a_cluster(tmp_path: Path, cluster: LocalCluster) -> None:
    """Folders 0700, files 0600: its own and those that Kafka and Valkey write, whatever the umask."""
    before = os.umask(0)
    try:
        with LocalCluster(directory=tmp_path / "home") as own:
            found = [own.directory, *own.directory.rglob("*")]
            open_to_others = [each for each in found if stat.S_IMODE(each.stat().st_mode) & 0o077]
    finally:
        os.umask(before)
    assert len(found) > 10
    assert open_to_others == []
