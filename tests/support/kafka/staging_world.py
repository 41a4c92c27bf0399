"""Topics for replays on a real Kafka, and a reader of them that shares nothing with the replay."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent_programs import until
from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import Cluster

__all__ = ["StagingWorld", "without_origin"]

Row = tuple[int, int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""Partition, offset, key, value, time, headers."""


class StagingWorld:
    """One Kafka as two: the profiles ``prod`` and ``staging``."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self.config = directory / "seekpoint.toml"
        profile = f'bootstrap_servers = "{bootstrap_servers}"'
        self.config.write_text(f"[clusters.prod]\n{profile}\n[clusters.staging]\n{profile}\nstaging = true\n")
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def cluster(self, name: str = "staging") -> Cluster:
        """A profile."""
        settings = Settings(bootstrap_servers=self.bootstrap_servers, redis_url=None)
        return Cluster(name=name, settings=settings, is_staging=name == "staging")

    def topic(self, partitions: int = 4, config: dict[str, str] | None = None) -> str:
        """A new topic; its name."""
        name = f"replay-{uuid4().hex[:10]}"
        [made] = self.admin.create_topics(
            [NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})], operation_timeout=60
        ).values()
        made.result(60)
        until(lambda: len(self.admin.list_topics(name, timeout=60).topics[name].partitions) == partitions, 120)
        until(lambda: self._is_described(name), 120)
        return name

    def _is_described(self, name: str) -> bool:
        """Whether the brokers agree that it is there."""
        [asked] = self.admin.describe_topics(TopicCollection([name])).values()
        try:
            return len(asked.result(60).partitions) > 0
        except KafkaException:
            return False

    def write(self, topic: str, rows: Iterable[tuple[int, bytes | None, bytes | None, int, Any]]) -> None:
        """Append records: partition, key, value, time, headers."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 20, "log_level": 0})
        for number, (partition, key, value, stamp, headers) in enumerate(rows):
            producer.produce(topic, value, key, partition, timestamp=stamp, headers=headers)
            if number % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def read(self, topic: str, *, committed: bool = True) -> list[Row]:
        """All records there are, by partition."""
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "checker",
                "enable.partition.eof": True,
                "isolation.level": level,
                "log_level": 0,
            }
        )
        rows = sorted(_rows(consumer, topic), key=lambda row: row[:2])
        consumer.close()
        return rows

    def command(self, *arguments: str) -> list[str]:
        """A ``seekpoint`` with these profiles."""
        return [sys.executable, "-m", "seekpoint.console", *arguments, "--config", str(self.config)]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The same as a process, its talk in a file."""
        with (self.directory / "talk.log").open("ab") as log:
            return subprocess.Popen(self.command(*arguments), stdout=log, stderr=log, env=self._environ())

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        command = self.command(*arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=240, env=self._environ(), check=False)

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "SEEKPOINT_HOME": str(self.directory / "home")}


def without_origin(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """What was replayed of each record: all but its offset and a replay's own headers."""
    return [(row[0], *row[2:5], tuple(each for each in row[5] if "seekpoint-replay" not in each[0])) for row in rows]


def _rows(consumer: Consumer, topic: str) -> Iterator[Row]:
    partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    left = set(partitions)
    while left:
        messages: list[Any] = consumer.consume(2_000, 1.0)
        for message in messages:
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                left.discard(message.partition())
                continue
            headers = tuple(message.headers() or ())
            stamp = message.timestamp()[1]
            yield message.partition(), message.offset(), message.key(), message.value(), stamp, headers
