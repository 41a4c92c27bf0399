"""The sender of a replay on Kafka: one idempotent producer whose records never expire."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from seekpoint.consumers.kafka.kafka_client import KafkaException, Producer
from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.replay_ports import OnDelivery
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ReplayRefused, SeekpointError

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")
_logger.addFilter(lambda record: "enable.gapless.guarantee" not in record.getMessage())

_REQUIRED: Mapping[str, Any] = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,  # a resumed replay relies on it, see delivered_records
    "acks": "all",
    "message.timeout.ms": 0,
    "message.max.bytes": 16_777_216,  # the topic has the limit
    "queue.buffering.max.messages": 20_000,
    "queue.buffering.max.kbytes": 16_384,
    "allow.auto.create.topics": False,
    "logger": _logger,
}
_DEFAULTS: Mapping[str, Any] = {"batch.size": 524_288}


class KafkaSender:
    """A ``Sender`` with one idempotent producer."""

    def __init__(self, topic: str, settings: Settings, errors: TopicErrors, *, linger_ms: float) -> None:
        self._topic = topic
        self._errors = errors
        with errors.translating_errors():
            config = {**_DEFAULTS, **settings.producer_config(), "linger.ms": linger_ms, **_REQUIRED}
            self._producer = Producer(config)

    def produce(
        self,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: OnDelivery,
        timestamp: int,
        headers: Any,
    ) -> None:
        """Pass one record to the client. Raises ``BufferError`` if its queue is full."""
        try:
            # Positional arguments are faster: topic, value, key, partition, callback, on_delivery, timestamp, headers.
            self._producer.produce(
                self._topic, value, key, partition, on_delivery, None, timestamp if timestamp > 0 else 0, headers
            )
        except KafkaException as exc:
            raise self.refusal(exc.args[0]) from exc

    def poll(self, timeout_s: float) -> None:
        """Call ``on_delivery`` of delivered records."""
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as exc:  # a fatal error is raised here too
            raise self._fatal(exc) from exc

    def flush(self, timeout_s: float) -> int:
        """Wait for deliveries; return how many records are not delivered."""
        try:
            return self._producer.flush(timeout_s)
        except (KafkaException, SystemError) as exc:
            raise self._fatal(exc) from exc

    def _fatal(self, error: Exception) -> SeekpointError:
        """Return the refusal in ``error``: the cause of a ``SystemError`` if ``on_delivery`` was called meanwhile."""
        found = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(found, KafkaException):
            raise error
        return self.refusal(found.args[0])

    def refusal(self, error: Any) -> SeekpointError:
        """Return Seekpoint's error for the client's."""
        if error.name() == "INVALID_TIMESTAMP" or "Invalid timestamp" in error.str():  # a fatal error names its cause
            return ReplayRefused(
                "the target refuses the time of a record (message.timestamp.before.max.ms, .after.max.ms)",
                topic=self._topic,
                hint="raise that setting of the target",
            )
        return self._errors.translate(error)

    def close(self) -> None:
        """Drop the records that are not delivered, at once."""
        with contextlib.suppress(KafkaException):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.poll(0)
