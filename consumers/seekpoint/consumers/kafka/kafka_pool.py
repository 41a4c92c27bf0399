"""The clients of one reader: idle consumers that are already connected, an admin client, a producer of tables."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from seekpoint.consumers.kafka.kafka_client import AdminClient, Consumer, KafkaError, KafkaException, Producer
from seekpoint.consumers.kafka.kafka_errors import translated
from seekpoint.consumers.kafka.kafka_settings import LOGGED, point_config, reader_config, writer_config
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.safe_reading import safe_config, watermark_config

RANGE_READS, POINT_READS, END_READS = "ranges", "points", "ends"
"""What a consumer reads: many records at a time, one record, or only ends, uncommitted records included."""

_POLL_S = 0.1
_IDLE_CONSUMERS_MAX = 8
_UNUSED_S = 30.0
"""How long consumers that nobody uses are kept, but for one of each kind: the threads of each wake every second."""


class PooledClient(Consumer):
    """A consumer without a group, its kind of reads, and the topics whose leaders it knows."""

    def __init__(self, config: dict[str, Any], kind: str) -> None:
        if kind == END_READS:
            super().__init__(watermark_config(config))
        else:
            super().__init__(safe_config(config))
        self.kind = kind
        self.topics: set[str] = set()
        self.returned_at_s = 0.0


class KafkaPool:
    """Makes clients when they are first needed. Thread safe. After ``close`` every call is ``JournalUnavailable``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: dict[str, list[PooledClient]] = {RANGE_READS: [], POINT_READS: [], END_READS: []}
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._closed = False

    def refuse_closed(self) -> None:
        """Raise ``JournalUnavailable`` if the pool was closed."""
        if self._closed:
            raise JournalUnavailable("the reader was closed", journal=self._settings.journal, hint="connect again")

    @contextlib.contextmanager
    def borrowed(self, kind: str = RANGE_READS) -> Iterator[PooledClient]:
        """Lend a consumer for one read. After an error it is closed and not used again."""
        with self._lock:
            self.refuse_closed()
            consumer = self._idle[kind].pop() if self._idle[kind] else None
        if consumer is None:
            config = point_config(self._settings) if kind == POINT_READS else reader_config(self._settings)
            with self.translating_errors():
                consumer = PooledClient({**config, **LOGGED}, kind)
        try:
            yield consumer
        except GeneratorExit:  # the caller of a generator stopped reading
            self._return(consumer)
            raise
        except BaseException:
            consumer.close()
            raise
        self._return(consumer)

    def _return(self, consumer: PooledClient) -> None:
        if consumer.kind != END_READS:
            consumer.unassign()  # an idle assignment keeps a fetch under way, and the next read would wait for it
        consumer.returned_at_s = time.monotonic()
        with self._lock:
            idle = self._idle[consumer.kind]
            has_room = not self._closed and len(idle) < _IDLE_CONSUMERS_MAX
            if has_room:
                idle.append(consumer)
            unneeded = self._take_unused() if has_room else consumer
        if unneeded is not None:
            unneeded.close()

    def _take_unused(self) -> PooledClient | None:
        """Take out a consumer that was not used for a while, if there is one. The last one of a kind stays."""
        since_s = time.monotonic() - _UNUSED_S
        for idle in self._idle.values():
            if len(idle) > 1 and idle[0].returned_at_s < since_s:  # the last one of the list is lent first
                return idle.pop(0)
        return None

    def admin(self) -> AdminClient:
        """Return the admin client."""
        with self._lock:
            self.refuse_closed()
            if self._admin is None:
                self._admin = AdminClient({**self._settings.admin_config(), **LOGGED})
            return self._admin

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record of a table and wait for its acknowledgement. Never use it for entries."""
        producer = self._table_producer()
        outcome: list[KafkaError | None] = []
        with self.translating_errors(topic=topic):
            producer.produce(topic, value, key, partition, on_delivery=lambda error, _: outcome.append(error))
            while not outcome:  # message.timeout.ms ends the wait, or the close
                self.refuse_closed()
                producer.poll(_POLL_S)  # a poll serves the callbacks of all threads
            if outcome[0] is not None:
                raise KafkaException(outcome[0])

    def _table_producer(self) -> Producer:
        with self._lock:
            self.refuse_closed()
            if self._producer is None:
                with self.translating_errors():
                    self._producer = Producer({**writer_config(self._settings), **LOGGED})
            return self._producer

    @contextlib.contextmanager
    def translating_errors(self, *, topic: str | None = None, partition: int | None = None) -> Iterator[None]:
        """Raise the Kafka client's errors as ``SeekpointError``, with ``topic`` and ``partition``."""
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0]
            raise translated(error.name(), error.str(), self._settings, topic=topic, partition=partition) from exc
        except TimeoutError as exc:
            raise translated("_TIMED_OUT", "no answer", self._settings, topic=topic, partition=partition) from exc

    def close(self) -> None:
        """Close the idle clients; a borrowed consumer is closed when it is returned. Idempotent."""
        with self._lock:
            self._closed = True
            idle = [consumer for consumers in self._idle.values() for consumer in consumers]
            for consumers in self._idle.values():
                consumers.clear()
        for consumer in idle:
            consumer.close()
        self._admin = self._producer = None
