"""What a reader says of a Kafka that cannot answer: quickly, if every address refuses connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from seekpoint.consumers.kafka import partition_fetcher
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.kafka.reach import addresses, reach, refusals
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable


@pytest.fixture
def port() -> Iterator[int]:
    """Something listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_one_reachable_address_is_enough(port: int) -> None:
    """The others may be down."""
    assert reach(f"127.0.0.1:1,127.0.0.1:{port}") == []
    assert len(reach("127.0.0.1:1,127.0.0.1:2")) == 2


def test_only_addresses_that_cannot_answer_are_refusals(port: int) -> None:
    """A silent one may answer later; a name that does not exist will not."""
    assert refusals(f"127.0.0.1:1,127.0.0.1:{port}") == []
    assert refusals("127.0.0.1:1, no.such.host.invalid")[0] == "127.0.0.1:1 connection refused"
    assert len(refusals("127.0.0.1:1, no.such.host.invalid")) == 2


def test_addresses_are_parsed_as_librdkafka_parses_them() -> None:
    """A protocol in front, a missing port, IPv6."""
    assert addresses("SASL_SSL://a:1,b, [::1]:2,[fe80::1]") == [("a", 1), ("b", 9092), ("::1", 2), ("fe80::1", 9092)]


def test_a_refused_address_is_reported_within_two_seconds() -> None:
    """Not after ``start_timeout_s``; with what to start, and that a file needs no Kafka."""
    reader = KafkaReader(Settings(bootstrap_servers="127.0.0.1:1"))
    began = time.monotonic()
    with pytest.raises(JournalUnavailable, match=r"no Kafka accepts connections") as caught:
        reader.connect()
    assert time.monotonic() - began < 8  # two seconds on a machine that is not busy
    assert caught.value.tried == "127.0.0.1:1 connection refused"
    assert "seekpoint up" in caught.value.hint
    assert "sqlite:///" in caught.value.hint
    reader.close()


def test_an_address_that_stops_refusing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that starts: only two refusals in a row end the wait."""
    answers = iter([["127.0.0.1:1 connection refused"], []])
    monkeypatch.setattr(partition_fetcher, "refusals", lambda servers: next(answers))
    reader = KafkaReader(Settings(bootstrap_servers="127.0.0.1:1", start_timeout_s=3.0))
    with pytest.raises(JournalUnavailable, match="did not answer for 3 s"):
        reader.connect()
    assert next(answers, None) is None
    reader.close()
