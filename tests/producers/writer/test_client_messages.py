"""What the Kafka client says that is no news to anybody."""

from __future__ import annotations

import logging

import pytest

from seekpoint.producers.writer.kafka_writer import client_logger


@pytest.mark.parametrize(
    ("said", "is_news"),
    [
        ("GETPID [thrd:main]: Failed to acquire PID: Broker: Coordinator load in progress: retrying", False),
        ("CONFWARN [thrd:app]: Configuration property enable.gapless.guarantee is experimental", False),
        ("GETPID [thrd:main]: Failed to acquire PID: Broker: Cluster authorization failed: giving up", True),
        ("FAIL [thrd:127.0.0.1:9092/1]: Connect to ipv4#127.0.0.1:9092 failed", True),
    ],
)
def test_what_passes_by_itself_is_not_told(said: str, is_news: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that has just started, and an experiment that is ours; everything else is."""
    with caplog.at_level(logging.WARNING, client_logger.name):
        client_logger.warning(said)
    assert bool(caplog.messages) is is_news
