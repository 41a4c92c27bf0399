"""Checkpoints written to a real Kafka: one transaction for all partitions, one transactional id a projector."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.kafka.kafka_client import KafkaError, KafkaException, Message, Producer, TopicPartition
from seekpoint.schemas.config.settings import Settings

__all__ = ["KafkaTransactions"]

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_TIMEOUT_MS = 10_000
"""So long may a dead projector's transaction hold up its successor; the broker looks every ten seconds besides."""

_GUARANTEED: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "transaction.timeout.ms": _TIMEOUT_MS,
    "message.timeout.ms": _TIMEOUT_MS,
    "message.max.bytes": 67_108_864,  # the topic holds the limit
}


class KafkaTransactions:
    """A ``CheckpointWriter``. Connects when first used. After any time-out it begins anew under the same id.

    A new producer of the same transactional id makes the broker decide what the former one left open.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._id = f"{settings.journal}.projector.{uuid4().hex}"
        self._topic = settings.topic_name("checkpoints")
        self._journal = settings.topic_name("journal")
        self._producer: Producer | None = None
        self._is_uncertain = False

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        """Write all of ``saves``, or nothing; where the checkpoints are."""
        producer = self._ready()
        try:
            producer.begin_transaction()
            positions = self.write(producer, saves)
            self.send_offsets(producer, saves, membership)
            producer.commit_transaction(_TIMEOUT_MS / 1000)
        except (KafkaException, BufferError) as exc:
            raise self._failed(producer, exc) from exc
        return positions

    def write(self, producer: Producer, saves: Sequence[Save]) -> dict[int, dict[bytes, int]]:
        """Hand over the records, and wait until they are in the log; nobody sees them yet."""
        positions: dict[int, dict[bytes, int]] = {save.partition: {} for save in saves}

        def delivered(error: KafkaError | None, message: Message) -> None:
            key, partition, offset = message.key(), message.partition(), message.offset()
            if error is None and isinstance(key, bytes) and key != FLOOR_KEY and partition is not None:
                positions[partition][key] = -1 if offset is None else offset

        for save in saves:
            records = [(key, one.to_bytes()) for key, one in save.checkpoints.items()]
            for key, value in [*records, (FLOOR_KEY, save.floor.to_bytes())]:
                producer.produce(self._topic, value, key, save.partition, on_delivery=delivered)
                producer.poll(0)
        producer.flush(_TIMEOUT_MS / 1000)
        return positions

    def send_offsets(self, producer: Producer, saves: Sequence[Save], membership: object) -> None:
        """The broker compares ``membership`` with the group here, and not at the commit."""
        offsets = [
            TopicPartition(self._journal, save.partition, save.next_offset, metadata=str(save.floor.since))
            for save in saves
        ]
        producer.send_offsets_to_transaction(offsets, membership, _TIMEOUT_MS / 1000)

    def settle(self) -> None:
        """What a former transaction left open is decided afterwards."""
        if self._is_uncertain:
            self._ready()

    def close(self) -> None:
        """Give up the connection. Nothing is open: a commit ends what it began."""
        self._producer = None

    def _ready(self) -> Producer:
        if self._producer is None:
            try:
                config = {**self._settings.producer_config(), **_GUARANTEED, "transactional.id": self._id}
                producer = Producer({**config, "logger": _logger})
                producer.init_transactions(self._settings.start_timeout_s)
            except KafkaException as exc:
                raise CommitFailed("no transactions: " + self._said(exc), decided=not self._is_uncertain) from exc
            self._producer, self._is_uncertain = producer, False
        return self._producer

    def _failed(self, producer: Producer, exc: KafkaException | BufferError) -> CommitFailed:
        """Abort, if the broker says that nothing but that is left to do; else nobody knows how it ended."""
        error = exc.args[0] if isinstance(exc, KafkaException) else None
        if error is not None and error.txn_requires_abort():
            try:
                producer.abort_transaction(_TIMEOUT_MS / 1000)
                return CommitFailed(self._said(exc), decided=True)
            except KafkaException as worse:
                _logger.warning("a transaction could not be aborted: %s", self._said(worse))
        self._producer, self._is_uncertain = None, True
        return CommitFailed("nobody knows how a transaction ended: " + self._said(exc), decided=False)

    def _said(self, exc: BaseException) -> str:
        return self._settings.scrub(str(exc))
