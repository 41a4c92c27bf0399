"""The ``CheckpointWriter`` of a real Kafka: one transaction for all partitions, one transactional id per projector."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Positions, Save
from seekpoint.consumers.kafka.kafka_client import KafkaError, KafkaException, Message, Producer, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import passes, translated
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_TIMEOUT_MS = 10_000
"""A dead projector's transaction blocks its successor for this long. The broker checks every ten seconds."""

_GUARANTEED: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "transaction.timeout.ms": _TIMEOUT_MS,
    "message.timeout.ms": _TIMEOUT_MS,
    "message.max.bytes": 67_108_864,  # the topic holds the limit
}


class KafkaTransactions:
    """A ``CheckpointWriter``. Connects when first used.

    After a time-out it makes a new producer with the same transactional id. The broker then commits or aborts the
    transaction that the former producer left open.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._id = f"{settings.journal}.projector.{uuid4().hex}"
        self._topic = settings.topic_name("checkpoints")
        self._journal = settings.topic_name("journal")
        self._producer: Producer | None = None
        self._is_uncertain = False
        self._refusal: SeekpointError | None = None
        """Why the broker refused a record of the present transaction for good; None: it has not."""

    def commit(self, saves: Sequence[Save], membership: object) -> Positions:
        """Write all of ``saves`` or nothing; return the positions of the checkpoints. Raises ``CommitFailed``."""
        producer = self._ready()
        self._refusal = None
        try:
            producer.begin_transaction()
            positions = self.write(producer, saves)
            self.send_offsets(producer, saves, membership)
            producer.commit_transaction(_TIMEOUT_MS / 1000)
        except (KafkaException, BufferError) as exc:
            raise self._failed(producer, exc) from exc
        return positions

    def write(self, producer: Producer, saves: Sequence[Save]) -> dict[int, dict[bytes, int]]:
        """Send the records and wait for their acknowledgement. Readers see them only after the commit."""
        positions: dict[int, dict[bytes, int]] = {save.partition: {} for save in saves}

        def delivered(error: KafkaError | None, message: Message) -> None:
            key, partition, offset = message.key(), message.partition(), message.offset()
            if error is not None and not passes(error.name()) and not error.name().startswith("_"):
                self._refusal = translated(error.name(), error.str(), self._settings)
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
        """Send the offsets. The broker compares ``membership`` with the group now, and not at the commit."""
        offsets = [
            TopicPartition(self._journal, save.partition, save.next_offset, metadata=str(save.floor.since))
            for save in saves
        ]
        producer.send_offsets_to_transaction(offsets, membership, _TIMEOUT_MS / 1000)

    def settle(self) -> None:
        """Commit or abort a transaction that this writer left open."""
        if self._is_uncertain:
            self._ready()

    def close(self) -> None:
        """Close the connection. No transaction is open, because ``commit`` ends each one."""
        self._producer = None

    def _ready(self) -> Producer:
        if self._producer is None:
            try:
                config = {**self._settings.producer_config(), **_GUARANTEED, "transactional.id": self._id}
                producer = Producer({**config, "logger": _logger})
                producer.init_transactions(self._settings.start_timeout_s)
            except KafkaException as exc:
                raise CommitFailed("no transactions: " + self._text_of(exc), decided=not self._is_uncertain) from exc
            self._producer, self._is_uncertain = producer, False
        return self._producer

    def _failed(self, producer: Producer, exc: KafkaException | BufferError) -> CommitFailed:
        """Abort the transaction if the broker demands it; otherwise its outcome is unknown."""
        error = exc.args[0] if isinstance(exc, KafkaException) else None
        if error is not None and error.txn_requires_abort():
            try:
                producer.abort_transaction(_TIMEOUT_MS / 1000)
                return self._refused(exc)
            except KafkaException as abort_error:
                _logger.warning("a transaction could not be aborted: %s", self._text_of(abort_error))
        self._producer, self._is_uncertain = None, True
        return CommitFailed("the outcome of a transaction is unknown: " + self._text_of(exc), decided=False)

    def _refused(self, exc: BaseException) -> CommitFailed:
        """Return the error of an aborted transaction, with the limit that a record met, where that is the reason."""
        if self._refusal is None:
            return CommitFailed(self._text_of(exc), decided=True)
        return CommitFailed(self._refusal.message, decided=True, topic=self._topic, hint=self._refusal.hint)

    def _text_of(self, exc: BaseException) -> str:
        return self._settings.scrub(str(exc))
