"""A local broker's settings, and the small things around its start."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from seekpoint.compose import topic_admin
from seekpoint.compose.brokers import broker_properties, kafka_uuid, meta_properties, to_text
from seekpoint.compose.cluster_ports import ClusterState, accepts, free_ports, is_free
from seekpoint.compose.directory import ClusterDirectory
from seekpoint.compose.runtime import tail
from seekpoint.compose.topic_admin import TopicAdmin
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable

DATA = Path("/data")


def test_a_single_broker_has_one_replica_of_internal_topics() -> None:
    """Asking for three would leave groups and transactions waiting for ever."""
    properties = broker_properties(1, [(1001, 1002)], DATA)
    factors = {name: value for name, value in properties.items() if name.endswith("replication.factor")}
    assert len(factors) == 4
    assert set(factors.values()) == {"1"}
    assert properties["transaction.state.log.min.isr"] == "1"


def test_three_brokers_are_voters_of_one_quorum() -> None:
    """Each is a voter with its own ports; internal topics have three copies, two in sync."""
    properties = broker_properties(2, [(1, 2), (3, 4), (5, 6)], DATA)
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:3,CONTROLLER://127.0.0.1:4"
    assert properties["offsets.topic.replication.factor"] == "3"
    assert properties["share.coordinator.state.topic.min.isr"] == "2"


def test_given_settings_override_defaults() -> None:
    """A fault test may want another broker than ours."""
    assert broker_properties(1, [(1, 2)], DATA, {"log.dirs": "/small"})["log.dirs"] == "/small"


def test_settings_are_written_as_java_properties() -> None:
    """One `name=value` a line, as the broker and the storage tool read them."""
    assert to_text({"a.b": "1", "c": ""}) == "a.b=1\nc=\n"
    assert meta_properties(3, "cluster") | {"directory.id": "d"} == {
        "version": "1",
        "cluster.id": "cluster",
        "node.id": "3",
        "directory.id": "d",
    }


def test_cluster_ids_have_the_form_of_kafkas() -> None:
    """22 characters of URL-safe base64, never an option's dash in front."""
    ids = {kafka_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)


def test_free_ports_are_free_and_different() -> None:
    """And a port in use is told from a free one."""
    ports = free_ports(5)
    assert len(set(ports)) == 5
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports[0]))
        server.listen()
        assert (is_free(ports[0]), accepts(ports[0])) == (False, True)
    assert (is_free(ports[1]), accepts(ports[1])) == (True, False)


def test_a_state_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Another process finds ports and pids."""
    home = ClusterDirectory(tmp_path)
    assert home.read() is None
    state = ClusterState(cluster_id="c", brokers=[(1, 2)], valkey=3, pids={"valkey": 4})
    home.write(state)
    assert home.read() == state


def test_a_lock_is_held_by_one_and_released_for_the_next(tmp_path: Path) -> None:
    """Two processes, or two clusters of one, never use a directory together."""
    first, second = ClusterDirectory(tmp_path), ClusterDirectory(tmp_path)
    assert first.lock()
    assert not second.lock()
    first.release()
    assert second.lock()
    second.release()


def test_a_logs_tail_is_its_message_not_its_stack(tmp_path: Path) -> None:
    """Java's frames would push the reason out of twenty lines."""
    log = tmp_path / "log"
    log.write_text("before\nERROR the reason\n" + "\tat some.Frame\n" * 50 + "last\n")
    assert tail(log, 3) == "before\nERROR the reason\nlast"
    assert tail(tmp_path / "none") == "(no log: No such file or directory)"


class Advertised:
    """A client whose brokers name these addresses."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports

    def list_topics(self, timeout: float) -> SimpleNamespace:
        brokers = {port: SimpleNamespace(host="127.0.0.1", port=port) for port in self._ports}
        return SimpleNamespace(brokers=brokers)


def test_brokers_that_advertise_an_address_that_does_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as one answers, nothing is said: the others may be down."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(topic_admin, "AdminClient", lambda config: Advertised(1))
        with pytest.raises(JournalUnavailable, match=r"names brokers that do not answer: 127\.0\.0\.1:1") as caught:
            TopicAdmin(Settings()).brokers()
        assert "advertised.listeners" in caught.value.hint
        monkeypatch.setattr(topic_admin, "AdminClient", lambda config: Advertised(1, port))
        assert TopicAdmin(Settings()).brokers() == 2
