"""Translate the Kafka client's errors of one topic into Seekpoint's, which name the cluster by its profile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seekpoint.consumers.kafka.kafka_client import KafkaException
from seekpoint.consumers.kafka.kafka_errors import translated
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import JournalUnavailable, SeekpointError


class TopicErrors:
    """The error translation for the clients of one topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    def translate(self, error: Any, *, partition: int | None = None, offset: int | None = None) -> SeekpointError:
        """Return Seekpoint's error for a client's, without secrets."""
        name, text, settings = error.name(), error.str(), self._cluster.settings
        found = translated(name, text, settings, topic=self._topic, partition=partition, offset=offset)
        found.journal, found.cluster = None, self._cluster.name
        return found

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Raise Seekpoint's error for each error that the client raises within."""
        try:
            yield
        except KafkaException as exc:
            raise self.translate(exc.args[0]) from exc
        except TimeoutError as exc:
            raise JournalUnavailable("Kafka does not answer", cluster=self._cluster.name, topic=self._topic) from exc
