"""``seekpoint up | down | status``: a cluster that outlives the command, and is found by the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from seekpoint.compose import LocalCluster
from seekpoint.schemas.errors import ClusterFailed
from shells import Shell


@pytest.fixture
def folder(shell: Shell) -> Iterator[Path]:
    """The working directory; nothing runs there afterwards."""
    yield Path.cwd()
    with contextlib.suppress(ClusterFailed):
        LocalCluster.attach(".seekpoint").stop()


@pytest.mark.own_cluster
def test_a_cluster_is_up_until_it_is_taken_down(shell: Shell, folder: Path) -> None:
    """Up, up again, found by other commands, a part lost, down, down again; its data is kept for the next time."""
    ran = shell("up")
    assert ran.code == 0
    name, _, servers = ran.out.splitlines()[0].partition("=")
    assert name == "export SEEKPOINT_BOOTSTRAP_SERVERS"
    assert "the local cluster is running" in ran.err
    assert (folder / ".seekpoint" / ".gitignore").read_text() == "*\n"

    again = shell("up", "--json")
    assert (again.json["started"], again.json["bootstrap_servers"]) == (False, servers)
    assert "is already running" in shell("up").err
    assert shell("up", "--brokers", "3").code == 2
    assert shell("status").out.count("yes") == 2
    assert [part["name"] for part in shell("status", "--json").json["parts"]] == ["broker-1", "valkey"]

    ran = shell("topics", "create")
    assert ran.code == 0
    assert "using the local cluster in .seekpoint" in ran.err
    assert shell("doctor").code == 0

    LocalCluster.attach(".seekpoint").valkey.kill()
    ran = shell("status")
    assert ran.code == 1
    assert ran.out.splitlines()[2].split()[-1] == "no"

    ran = shell("down")
    assert (ran.code, ran.out) == (0, "")
    assert "its data is kept" in ran.err
    assert shell("down").code == 0
    assert shell("status").code == 3
    assert "seekpoint up (it was stopped)" in shell("ps").err


def test_an_unused_directory_has_no_running_cluster(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """``status`` is not reachable; ``down`` is content; nothing is made. ``SEEKPOINT_HOME`` names another place."""
    assert shell("status").code == 3
    assert shell("down").code == 0
    assert not Path(".seekpoint").exists()
    monkeypatch.setenv("SEEKPOINT_HOME", "elsewhere")
    assert "elsewhere" in shell("status").err
    assert "there" in shell("down", "--directory", "there").err


def test_a_damaged_state_file_is_an_error(shell: Shell) -> None:
    """``down`` must not say that nothing runs when it cannot know."""
    Path(".seekpoint").mkdir()
    (Path(".seekpoint") / "cluster.json").write_text("{")
    ran = shell("down")
    assert ran.code == 3
    assert "cluster.json" in ran.err
