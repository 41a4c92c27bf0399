"""The Kafka client of this root: the only module here that imports it."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

__all__ = ["live_brokers"]

_QUIET = {"log_level": "0"}


def live_brokers(address: str, timeout_s: float = 1.0) -> frozenset[int]:
    """The ids of the brokers that the broker at ``address`` knows to be up; empty when it does not answer."""
    try:
        return frozenset(AdminClient({"bootstrap.servers": address, **_QUIET}).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return frozenset()
