"""The Kafka client: the only module of this root that imports it. It lists the names that other modules use."""

from __future__ import annotations

from seekpoint.schemas.config.extras import kafka_missing

try:
    from confluent_kafka import (
        OFFSET_BEGINNING,
        Consumer,
        ConsumerGroupTopicPartitions,
        IsolationLevel,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType
except ModuleNotFoundError as exc:
    raise kafka_missing(exc.name) from exc

__all__ = [
    "OFFSET_BEGINNING",
    "AdminClient",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupTopicPartitions",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewTopic",
    "OffsetSpec",
    "Producer",
    "ResourceType",
    "TopicCollection",
    "TopicPartition",
]
