"""What a projector works with: on Kafka and Redis, or in the file of an embedded log."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seekpoint.consumers.journal_log import embedded_log
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.schemas.log.manifest import refuse_older_format

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.cadence import Cadence
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader
    from seekpoint.consumers.checkpoints.checkpoint_writer import CheckpointWriter
    from seekpoint.consumers.log_reading.group_port import JoinGroup
    from seekpoint.consumers.recovery_service.requested_checkpoints import CheckpointRequests
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.consumers.view.view_store import ViewStore
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.log.log_ports import LogReader


@dataclass(frozen=True, slots=True)
class ProjectorParts:
    """The journal, where its view and its checkpoints go, and the group that shares its partitions."""

    log: LogReader
    view: ViewStore
    checkpoints: CheckpointReader
    writer: CheckpointWriter
    join: JoinGroup
    requests: CheckpointRequests | None

    @classmethod
    def connect(cls, settings: Settings, stack: ExitStack) -> ProjectorParts:
        """Connect to what ``settings`` name; ``stack`` closes it."""
        embedded = embedded_log(settings)
        parts = _on_kafka(settings, stack) if embedded is None else _in_file(embedded, stack)
        refuse_older_format(parts.log.name, parts.log.journal_format)  # older readers could not read its states
        return parts

    def source(self, settings: Settings, cadence: Cadence) -> Callable[[Executor], ProjectionSource]:
        """Return a maker of the ports and settings of projections."""
        return lambda writes: ProjectionSource(
            log=self.log, topic_id=self.log.topic_id, view=self.view, checkpoints=self.checkpoints, writer=self.writer,
            writes=writes, on_poison=DeadLetters(self.log, settings).add, cadence=cadence,
            finished_content_s=settings.finished_content_s,
        )  # fmt: skip


def _in_file(log: SqliteLog, stack: ExitStack) -> ProjectorParts:
    from seekpoint.consumers.sqlite.sqlite_projectors import SqliteProjectors
    from seekpoint.consumers.sqlite.sqlite_view import SqliteView

    stack.callback(log.close)
    checkpoints = log.checkpoints()
    return ProjectorParts(
        log, SqliteView(log.file), checkpoints, checkpoints, join=partial(SqliteProjectors, log), requests=None
    )


def _on_kafka(settings: Settings, stack: ExitStack) -> ProjectorParts:
    from seekpoint.consumers.kafka.kafka_group import KafkaGroup
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.kafka.kafka_transactions import KafkaTransactions
    from seekpoint.consumers.recovery_service.exchange import KafkaExchange
    from seekpoint.consumers.recovery_service.requested_checkpoints import RequestedCheckpoints
    from seekpoint.consumers.view.redis_view import RedisView

    reader = KafkaReader(settings)
    stack.callback(reader.close)
    view = RedisView(settings, reader.partitions)
    stack.callback(view.close)
    transactions = KafkaTransactions(settings)
    stack.callback(transactions.close)
    requests = RequestedCheckpoints(KafkaExchange(reader), reader).start()
    stack.callback(requests.close)
    return ProjectorParts(reader, view, reader.checkpoints(), transactions, partial(KafkaGroup, settings), requests)
