"""The Kafka client: the only module of this root that imports it. What the others use of it is named here."""

from __future__ import annotations

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

__all__ = [
    "AdminClient",
    "ConfigResource",
    "Consumer",
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
