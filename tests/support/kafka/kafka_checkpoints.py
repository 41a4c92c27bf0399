"""Checkpoints and a view of a real journal, as of now, put there without a projector."""

from __future__ import annotations

from raw_kafka import RawKafka
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.config.settings import Settings

__all__ = ["project", "save"]


def save(settings: Settings) -> None:
    """A checkpoint of every process, and every partition's floor at its end."""
    reader, raw = KafkaReader(settings), RawKafka(settings)
    topic = settings.topic_name("checkpoints")
    for partition in range(reader.partitions):
        records: list[tuple[bytes | None, bytes | None, int]] = []
        for process_id, found in Recoverer(reader).recover_partition(partition, tier=Tier.SCAN).items():
            checkpoint = Checkpoint.of(process_id, partition, found.state, reader.topic_id, -1)
            records.append((process_id.encode(), checkpoint.to_bytes(), 1_000))
        high = reader.watermarks(partition).high
        floor = Floor(offset=high, leader_epoch=-1, topic_id=reader.topic_id, since=0)
        raw.write(partition, [*records, (FLOOR_KEY, floor.to_bytes(), 1_000)], topic)
    reader.close()


def project(settings: Settings) -> None:
    """A view of every partition as of its end."""
    reader, view = KafkaReader(settings), RedisView(settings, settings.partitions)
    for partition in range(reader.partitions):
        token = view.install(partition, reader.topic_id)
        high = reader.watermarks(partition).high
        found = Recoverer(reader).recover_partition(partition, tier=Tier.SCAN)
        nowhere = Pointer(999_999, 0)
        assert view.put(partition, token, {key.encode(): (one.state, nowhere) for key, one in found.items()})
        assert view.ready(partition, token, high - 1, -1)
    view.close()
    reader.close()
