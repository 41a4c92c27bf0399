"""Checkpoints on a real Kafka keep the promises of a ``CheckpointReader``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkpoints_contract import CheckpointsContract, OpenTransaction, RawCheckpoint
from raw_kafka import RawKafka
from seekpoint.compose.creation import create_topics_sync
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch

pytestmark = pytest.mark.cluster


class KafkaTransaction:
    """A transaction of a real producer."""

    def __init__(self, raw: RawKafka, topic: str) -> None:
        self._raw = raw
        self._topic = topic
        self._producer: Any = raw.transaction()

    def put(self, partition: int, key: bytes, value: bytes | None) -> int:
        return self._raw.write_in(self._producer, partition, [(key, value, 0)], self._topic)[0]

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)


class KafkaBench:
    """The checkpoints of a journal on the session's Kafka."""

    def __init__(self, settings: Settings) -> None:
        self.raw = RawKafka(settings)
        self.topic = settings.topic_name("checkpoints")
        self._readers = [KafkaReader(settings), KafkaReader(replace(settings, start_timeout_s=2.0))]
        self.reader, self.impatient = (reader.checkpoints() for reader in self._readers)

    def write(self, partition: int, records: Sequence[RawCheckpoint]) -> list[int]:
        return self.raw.write(partition, [(key, value, 0) for key, value in records], self.topic)

    def begin(self) -> OpenTransaction:
        return KafkaTransaction(self.raw, self.topic)

    def wait_for_stable_end(self, partition: int, position: int) -> None:
        deadline = time.monotonic() + 60
        while (found := self.reader.stable_end(partition)) != position:
            assert time.monotonic() < deadline, f"the stable end is {found}, not {position}"

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


@pytest.fixture
def kept(settings: Settings) -> Iterator[KafkaBench]:
    create_topics_sync(settings)
    bench = KafkaBench(settings)
    yield bench
    bench.close()


class TestKafkaCheckpoints(CheckpointsContract):
    """Inherited."""


def test_checkpoints_of_a_topic_that_was_recreated_are_refused(kept: KafkaBench) -> None:
    """Its id is not the manifest's."""
    kept.raw.recreate(["checkpoints"])
    with pytest.raises(JournalMismatch, match="re-created"):
        kept.reader.stable_end(1)
