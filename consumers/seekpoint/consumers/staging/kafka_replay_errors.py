"""Errors of the Kafka client that a replay meets, as ours: with the cluster by its profile's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seekpoint.consumers.kafka.kafka_client import KafkaException
from seekpoint.consumers.kafka.kafka_errors import translated
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import JournalUnavailable, SeekpointError

__all__ = ["TopicErrors"]


class TopicErrors:
    """Of the clients of one topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    def of(self, error: Any, **facts: Any) -> SeekpointError:
        """A client's error as ours, without secrets."""
        found = translated(error.name(), error.str(), self._cluster.settings, topic=self._topic, **facts)
        found.facts.pop("journal", None)
        found.facts["cluster"] = self._cluster.name
        return found

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What the client raises within is raised as ours."""
        try:
            yield
        except KafkaException as exc:
            raise self.of(exc.args[0]) from exc
        except TimeoutError as exc:
            raise JournalUnavailable("Kafka does not answer", cluster=self._cluster.name, topic=self._topic) from exc
