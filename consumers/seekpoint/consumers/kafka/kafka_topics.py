"""The comparison of the topics with the journal's manifest: ids and partition count."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import wait
from typing import Any

from seekpoint.consumers.kafka.kafka_client import KafkaException, TopicCollection
from seekpoint.consumers.kafka.kafka_errors import GONE, translated
from seekpoint.consumers.kafka.kafka_pool import KafkaPool
from seekpoint.schemas.config.settings import TOPICS, Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.manifest import Manifest

_CHECK_INTERVAL_S = 1.0
_ANSWER_TIMEOUT_S = 1.0


class KafkaTopics:
    """Describes the topics of one journal, and compares them with its manifest."""

    def __init__(self, settings: Settings, pool: KafkaPool) -> None:
        self._settings = settings
        self._pool = pool
        self._checked_at = 0.0

    def describe(self) -> Mapping[str, Any]:
        """Request a description of each topic. The answers arrive in the background."""
        self._checked_at = time.monotonic()
        with self._pool.translating_errors():
            names = TopicCollection([self._settings.topic_name(topic) for topic in TOPICS])
            return self._pool.admin().describe_topics(names, request_timeout=self._settings.start_timeout_s)

    def describe_if_due(self) -> Mapping[str, Any] | None:
        """Request the descriptions if the last request is more than a second old; else return None."""
        return self.describe() if time.monotonic() - self._checked_at > _CHECK_INTERVAL_S else None

    def found_id(self, topic: str) -> str | None:
        """Return the id of a topic, also of one that the manifest does not name; None if there is no such topic."""
        timeout_s = self._settings.start_timeout_s
        with self._pool.translating_errors(topic=topic):
            [asked] = self._pool.admin().describe_topics(TopicCollection([topic]), request_timeout=timeout_s).values()
            try:
                return str(asked.result(timeout_s + 1).topic_id)
            except KafkaException as exc:
                if exc.args[0].name() in GONE:
                    return None
                raise

    def compare(self, manifest: Manifest, described: Mapping[str, Any], timeout_s: float | None = None) -> None:
        """Raise ``JournalMismatch`` if the topics are not, or no longer, those of the manifest."""
        if timeout_s is None:
            timeout_s = self._settings.start_timeout_s + 1
        topics = {}
        for name, future in described.items():
            with self._pool.translating_errors(topic=name) if name in manifest.topic_ids else _optional_topic():
                topics[name] = future.result(timeout_s)
        journal = self._settings.topic_name("journal")
        if journal not in topics:
            raise translated("UNKNOWN_TOPIC_OR_PART", "", self._settings, topic=journal)
        manifest.check(len(topics[journal].partitions), {name: str(topic.topic_id) for name, topic in topics.items()})

    def compare_after_read(self, manifest: Manifest, described: Mapping[str, Any]) -> None:
        """Compare after a read that succeeded: only a real difference raises, a missing answer does not."""
        if not all(future.done() for future in described.values()):
            wait(described.values(), timeout=_ANSWER_TIMEOUT_S)
        try:
            self.compare(manifest, described, timeout_s=0.0)
        except JournalUnavailable:
            self._checked_at = 0.0  # the next read asks again


def _optional_topic() -> contextlib.AbstractContextManager[None]:
    """Ignore a missing topic that the manifest does not name: no data is lost with it."""
    return contextlib.suppress(KafkaException, TimeoutError)
