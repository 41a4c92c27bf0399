"""The requests after which a new broker has what its first clients would wait for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from seekpoint.compose import LocalCluster, first_requests
from seekpoint.compose.cluster_ports import free_ports
from seekpoint.compose.first_requests import ask_for_coordinators, ask_for_producer_ids


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A broker that gives these answers in turn, then hangs up."""
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            for answer in answers:
                asked.append(connection.recv(1000))
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], asked
        thread.join()


def answer(code: int) -> bytes:
    return (24).to_bytes(4, "big") + bytes(8) + code.to_bytes(2, "big") + bytes(14)


def test_a_broker_is_asked_until_it_has_producer_ids() -> None:
    """ "Coordinator load in progress" means that it waits for the controller."""
    with answering(answer(14), answer(14), answer(0)) as (port, asked):
        assert ask_for_producer_ids(port)
    assert len(asked) == 3
    assert asked[0] == asked[2]


@pytest.mark.parametrize("bad", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(20)], ids=["none", "http", "zeros"])
def test_no_broker_or_a_strange_answer_is_no_error(bad: bytes) -> None:
    """Clients ask again by themselves."""
    with answering(bad) as (port, _):
        assert not ask_for_producer_ids(port)
    assert not ask_for_producer_ids(free_ports(1)[0])


def test_a_broker_that_never_gets_ready_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a limit, not for ever."""
    monkeypatch.setattr(first_requests, "_TIMEOUT_S", 0.05)
    monkeypatch.setattr(first_requests, "_INTERVAL_S", 0.1)
    with answering(answer(15), answer(15), answer(15), answer(15)) as (port, _):
        assert not ask_for_coordinators(port)


@pytest.mark.own_cluster
def test_a_fresh_cluster_has_what_its_first_clients_would_wait_for() -> None:
    """A client that is told to try again waits for half a second or more; here nobody is told so."""
    with LocalCluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "first"})
        topics = set(producer.list_topics(timeout=10).topics)
        assert {"__consumer_offsets", "__transaction_state"} <= topics
        producer.init_transactions(10)
        assert ask_for_producer_ids(cluster.brokers[0].port)
        assert ask_for_coordinators(cluster.brokers[0].port)
