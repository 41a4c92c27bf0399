"""The local cluster: what starts, what stops, what survives."""

from __future__ import annotations

import socket

import pytest

from seekpoint.compose import LocalCluster


@pytest.mark.cluster
def test_every_part_answers_once_the_cluster_is_up(cluster: LocalCluster) -> None:
    """Leaving `start` means that clients are served, by Kafka and by Valkey."""
    assert [(part.name, part.answers) for part in cluster.status()] == [("broker-1", True), ("valkey", True)]
    with socket.create_connection(("127.0.0.1", cluster.valkey.port), 1) as connection:
        connection.sendall(b"CONFIG GET maxmemory-policy\r\n")
        assert b"noeviction" in connection.recv(200)
