"""Topics in memory for tests of replays: full ones of all sorts, empty ones of staging, and what they fold to."""

from __future__ import annotations

from typing import Any

from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.schemas import partition_of
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.wire.codec import Codec

__all__ = ["Seen", "assert_equal", "filled", "folded", "journal", "prod", "seen", "staging"]

Seen = tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def prod(partitions: int = 4) -> MemoryTopic:
    return MemoryTopic(partitions, cluster_id="prod")


def staging(partitions: int = 4, config: dict[str, str] | None = None) -> MemoryTopic:
    return MemoryTopic(partitions, cluster_id="staging", config=config)


def seen(record: Any) -> Seen:
    """A record without what a replay adds to it."""
    headers = [each for each in record.headers() or [] if not each[0].startswith("seekpoint-replay-")]
    return record.partition(), record.key(), record.value(), record.timestamp()[1], headers


def assert_equal(source: MemoryTopic, target: MemoryTopic) -> None:
    """Record for record, partition for partition."""
    assert [seen(record) for record in target.records()] == [seen(record) for record in source.records()]


def filled(records: int = 40, partitions: int = 4) -> MemoryTopic:
    """Records of all sorts: nulls, empty texts, headers, doubles, times that go back, a tombstone."""
    topic = prod(partitions)
    for number in range(records):
        key = None if number % 11 == 0 else f"case-{number % 5}".encode()
        value = None if number % 7 == 0 else b"" if number % 13 == 0 else f"value {number}".encode()
        headers: Any = [("h", b"1"), ("h", None), ("e", b"")] if number % 3 == 0 else None
        topic.append(number % partitions, key, value, 1_700_000_000_000 + (number * 37) % 50, headers)
    return topic


def journal(topic: MemoryTopic, partitions: int, limits: Limits = DEFAULT_LIMITS) -> MemoryTopic:
    """The topic, with the manifest that makes it a journal."""
    manifest = Manifest(journal="memory", format=1, partitions=partitions, topic_ids={}, limits=limits)
    topic.schema_records[MANIFEST_KEY] = manifest.to_bytes()
    return topic


def folded(topic: MemoryTopic) -> dict[str, State]:
    """Every process, by the plain fold."""
    codec, drafts = Codec(), dict[str, Draft]()
    for record in topic.records():
        try:
            entry = codec.decode(record.value())
        except UndecodableRecord:
            continue
        key, partitions = record.key() or b"", topic.facts().partitions
        if entry.process_id.encode() == key and partition_of(key, partitions) == record.partition():
            advance(drafts.setdefault(entry.process_id, Draft()), record.offset(), entry)
    return {process_id: draft.freeze() for process_id, draft in drafts.items()}
