"""The clients of one reader: warm consumers, parked between jobs; an admin client; a producer of tables.

borrowed() ──> a parked consumer (no group, read committed) ── assign, poll ──> unassigned, and parked again
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from seekpoint.consumers.kafka.kafka_client import AdminClient, Consumer, KafkaError, KafkaException, Producer
from seekpoint.consumers.kafka.kafka_errors import translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED, point_config, reader_config, writer_config
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.safe_reading import asking, safe

__all__ = ["ENDS", "POINTS", "STRETCHES", "KafkaPool", "PooledClient"]

STRETCHES, POINTS, ENDS = "stretches", "points", "ends"
"""What a consumer is for: much at a time, one record, or only where a partition ends with what is not committed."""

_POLL_S = 0.1
_IDLE_CONSUMERS_MAX = 8


class PooledClient(Consumer):
    """A consumer, what it is for, and the topics it knows the leaders of."""

    def __init__(self, config: dict[str, Any], kind: str) -> None:
        if kind == ENDS:
            super().__init__(asking(config))
        else:
            super().__init__(safe(config))
        self.kind = kind
        self.topics: set[str] = set()


class KafkaPool:
    """Makes clients when they are first needed. Thread safe. After ``close`` every call is ``JournalUnavailable``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: dict[str, list[PooledClient]] = {STRETCHES: [], POINTS: [], ENDS: []}
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._closed = False

    def refuse_closed(self) -> None:
        """Raise if it was closed."""
        if self._closed:
            raise JournalUnavailable("the reader was closed", journal=self._settings.journal, hint="connect again")

    @contextlib.contextmanager
    def borrowed(self, kind: str = STRETCHES) -> Iterator[PooledClient]:
        """A consumer for one job. After an error it is not trusted again."""
        with self._lock:
            self.refuse_closed()
            consumer = self._idle[kind].pop() if self._idle[kind] else None
        if consumer is None:
            config = point_config(self._settings) if kind == POINTS else reader_config(self._settings)
            with self.ours():
                consumer = PooledClient({**config, **LOGGED}, kind)
        try:
            yield consumer
        except GeneratorExit:  # whoever reads had enough
            self._park(consumer)
            raise
        except BaseException:
            consumer.close()
            raise
        self._park(consumer)

    def _park(self, consumer: PooledClient) -> None:
        if consumer.kind != ENDS:
            consumer.unassign()  # an idle assignment keeps a fetch under way that the next job would wait for
        with self._lock:
            parked = self._idle[consumer.kind]
            kept = not self._closed and len(parked) < _IDLE_CONSUMERS_MAX
            if kept:
                parked.append(consumer)
        if not kept:
            consumer.close()

    def admin(self) -> AdminClient:
        """The admin client."""
        with self._lock:
            self.refuse_closed()
            if self._admin is None:
                self._admin = AdminClient({**self._settings.admin_config(), **LOGGED})
            return self._admin

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record and wait for its acknowledgement: for tables only, never for entries."""
        producer = self._writer()
        outcome: list[KafkaError | None] = []
        with self.ours(topic=topic):
            producer.produce(topic, value, key, partition, on_delivery=lambda error, _: outcome.append(error))
            while not outcome:  # message.timeout.ms ends the wait, or the close
                self.refuse_closed()
                producer.poll(_POLL_S)  # whoever polls delivers for all
            if outcome[0] is not None:
                raise KafkaException(outcome[0])

    def _writer(self) -> Producer:
        with self._lock:
            self.refuse_closed()
            if self._producer is None:
                with self.ours():
                    self._producer = Producer({**writer_config(self._settings), **LOGGED})
            return self._producer

    @contextlib.contextmanager
    def ours(self, **facts: Any) -> Iterator[None]:
        """The client's errors as ours."""
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0]
            raise translated(error.name(), error.str(), self._settings, **facts) from exc
        except TimeoutError as exc:
            raise translated("_TIMED_OUT", "no answer", self._settings, **facts) from exc

    def close(self) -> None:
        """Give them up; a consumer that is borrowed is closed when it comes back. Idempotent."""
        with self._lock:
            self._closed = True
            idle = [consumer for parked in self._idle.values() for consumer in parked]
            for parked in self._idle.values():
                parked.clear()
        for consumer in idle:
            consumer.close()
        self._admin = self._producer = None
