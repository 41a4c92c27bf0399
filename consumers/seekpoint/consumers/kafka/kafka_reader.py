"""The log on a real Kafka, read side. ``kafka_client`` is the only module of this root that imports the client.

Nothing happens before the first use. It compares the topics with the journal's manifest: ids and partition count.
Later reads repeat it beside themselves, at most once a second: a topic that is re-created under a running reader is a
``JournalMismatch`` within that second, and at once where offsets do not fit any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from seekpoint.consumers.kafka.compacted_tables import KafkaTable, newest_of
from seekpoint.consumers.kafka.kafka_checkpoints import KafkaCheckpoints
from seekpoint.consumers.kafka.kafka_client import (
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, NOT_FOUND, OUT_OF_RANGE, passes, translated
from seekpoint.consumers.kafka.kafka_pool import ENDS, POINTS, KafkaPool, PooledClient
from seekpoint.consumers.kafka.kafka_tail import KafkaTail
from seekpoint.consumers.kafka.kafka_topics import KafkaTopics
from seekpoint.consumers.kafka.messages import Patience, ascend, belongs, disorder, landmark_of, offset_of, record_of
from seekpoint.consumers.log_reading.stable_end import hidden_end_error
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, JournalMismatch, JournalUnavailable, LogTruncated, SeekpointError
from seekpoint.schemas.log.log_ports import Batch, Extent, Record, Watermarks
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, newest_schemas, writer_schemas
from seekpoint.schemas.wire.codec import Codec

__all__ = ["KafkaReader"]

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

T = TypeVar("T")

_POLL_S = 0.1
_RETRY_S = 0.05
_BATCH_RECORDS = 5_000
_SHORT_AFTER_S = 1.0
"""So long may a partition end below what was asked for, until somebody asks why (a leader may have moved)."""


class KafkaReader:
    """Reads a journal's topics. Lazy, thread safe, blocking: ``start_timeout_s`` of silence is ``JournalUnavailable``.

    Raises ``JournalMismatch`` if the topics are not (or no longer) those of the manifest, ``NewerFormat``, and what
    ``LogReader`` says.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.journal
        self._pool = KafkaPool(settings)
        self._topics = KafkaTopics(settings, self._pool)
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._manifest: Manifest | None = None
        self._codec: Codec | None = None
        self._tables: dict[str, KafkaTable] = {}
        self._ends: dict[int, int] = {}

    # --- what the journal is --------------------------------------------------------------------------------------
    @property
    def partitions(self) -> int:
        """How many partitions the journal has."""
        return self.connect().partitions

    @property
    def codec(self) -> Codec:
        """Decodes the journal's entries, whatever schema they were written with."""
        self.connect()
        assert self._codec is not None
        return self._codec

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self.connect().limits

    def connect(self) -> Manifest:
        """The journal's manifest, compared with the topics the first time; costs nothing later."""
        if self._manifest is None:
            with self._connecting:
                if self._manifest is None:
                    self._manifest = self._verified()
        return self._manifest

    def _verified(self) -> Manifest:
        with self._pool.borrowed() as consumer:
            # Assigned before anything else: a consumer that waits for its first connection waits a second.
            self._assign(consumer, self.settings.topic_name("schemas"), 0, 0)
            described = self._topics.describe()
            records = newest_of(self._read_to_end(consumer, "schemas", described))
        if MANIFEST_KEY not in records:
            raise JournalMismatch(
                "the journal has no manifest", journal=self.name, hint="create it: seekpoint topics create"
            )
        manifest = Manifest.from_bytes(records[MANIFEST_KEY])
        self._topics.compare(manifest, described)
        self._codec = Codec(
            manifest.limits, writer_schemas(records), lambda: newest_schemas(self.table("schemas").items())
        )
        return manifest

    def check(self) -> None:
        """Compare the topics with the manifest now. Raises ``JournalMismatch``; about two milliseconds."""
        self._topics.compare(self.connect(), self._topics.describe())

    @property
    def topic_id(self) -> str:
        """The id of the journal's topic: offsets mean nothing without it."""
        return self.connect().topic_ids[self.settings.topic_name("journal")]

    def found_id(self, name: str) -> str | None:
        """The id of the topic ``NAME.name`` as it is now; None where it is not there."""
        return self._topics.found_id(self.settings.topic_name(name))

    # --- reading --------------------------------------------------------------------------------------------------
    def watermarks(self, partition: int) -> Watermarks:
        """First and next offset; ``high`` is below any transaction still open."""
        self.connect()
        known = self._ends.get(partition, 0)  # before asking: of two who ask at once the older answer may come last
        with self._pool.borrowed() as consumer:
            found = self._watermarks(consumer, self.settings.topic_name("journal"), partition)
        if found.high < known:
            self.check()
            raise LogTruncated("the log became shorter", journal=self.name, partition=partition, **found._asdict())
        with self._lock:
            self._ends[partition] = max(found.high, self._ends.get(partition, 0))
        return found

    def extent(self, partition: int) -> Extent:
        """The same, and where the partition ends with what an open transaction hides.

        One request where nothing was written since somebody last asked: what was stable then is stable for ever.
        """
        self.connect()
        known = self._ends.get(partition, 0)  # before asking, as above
        with self._pool.borrowed(ENDS) as consumer:
            low, end = self._watermarks(consumer, self.settings.topic_name("journal"), partition)
        if known == end:
            return Extent(low, end, end)
        low, high = self.watermarks(partition)
        return Extent(low, high, max(end, high))

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Batches of the records in [start, stop) whose key is in ``keys`` (None: all); see ``LogReader``."""
        manifest = self.connect()
        if start >= stop:
            return
        described = self._topics.describe_if_due()
        with self._pool.borrowed() as consumer:
            topic = self.settings.topic_name("journal")
            self._assign(consumer, topic, partition, start)
            yield from self._read(consumer, topic, partition, start, stop, keys)
        if described is not None:
            self._topics.compare_beside(manifest, described)

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """The first offset whose record is not older than ``timestamp_ms``; the high watermark if there is none."""
        self.connect()
        topic = self.settings.topic_name("journal")
        with self._pool.borrowed() as consumer:
            found = self._insist(lambda timeout_s: _ask_time(consumer, topic, partition, timestamp_ms, timeout_s))
            return found if found >= 0 else self._watermarks(consumer, topic, partition).high

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """The leader epoch of the record at exactly ``offset``; -1 if there is none."""
        self.connect()
        found = self._message_at(self.settings.topic_name("journal"), partition, offset)
        return -1 if found is None or offset_of(found) != offset else landmark_of(found).leader_epoch

    def tail(self) -> KafkaTail:
        """A new tail: a consumer of its own, which the caller closes."""
        return KafkaTail(self.settings)

    def table(self, name: str) -> KafkaTable:
        """The compacted topic ``NAME.name``. Its newest values are kept: the next ``items()`` reads what is new."""
        with self._lock:
            return self._tables.setdefault(name, KafkaTable(self, name))

    def checkpoints(self) -> KafkaCheckpoints:
        """The checkpoints, read through the same consumers."""
        return KafkaCheckpoints(self)

    def marks_of(self, topic: str, partition: int) -> Watermarks:
        """First and next position of another topic's partition; read committed."""
        with self._pool.borrowed() as consumer:
            return self._watermarks(consumer, topic, partition)

    def read_topic(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Batch]:
        """Batches of another topic's records in [start, stop), without the comparison that the journal gets."""
        with self._pool.borrowed() as consumer:
            self._assign(consumer, topic, partition, start)
            yield from self._read(consumer, topic, partition, start, stop, None)

    def first_at(self, topic: str, partition: int, position: int) -> Record | None:
        """The first committed record at or after ``position``; None if the partition ends without one."""
        found = self._message_at(topic, partition, position)
        return None if found is None else record_of(partition, found)

    def _message_at(self, topic: str, partition: int, position: int) -> Message | None:
        patience = Patience(self.settings.start_timeout_s)
        with self._pool.borrowed(POINTS) as consumer:
            self._assign(consumer, topic, partition, position)
            while True:
                messages = self._poll(consumer, patience, records_max=0)
                messages = [each for each in messages if belongs(each, topic, partition, position)]
                end = self._settle(messages, topic, partition, position)
                found = next((each for each in messages if each.error() is None), None)
                if found is not None or end is not None:
                    return found

    def uncommitted_end(self, topic: str, partition: int) -> int:
        """Where a partition ends, open transactions included."""
        with self._pool.borrowed(ENDS) as consumer:
            return self._watermarks(consumer, topic, partition).high

    def read_newer(self, topic: str, partition: int, start: int) -> tuple[list[Record], int]:
        """For tables: the records of a compacted topic from ``start`` on, and where it ends now."""
        with self._pool.borrowed() as consumer:
            low, high = self._watermarks(consumer, topic, partition)
            start = max(start, low)
            records: list[Record] = []
            if start < high:
                self._assign(consumer, topic, partition, start)
                for batch in self._read(consumer, topic, partition, start, high, None):
                    records += batch.records
            return records, high

    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the journal's records below ``offset``, for ever. For ``Trim``, which looks first."""
        self.check()
        topic = self.settings.topic_name("journal")
        wanted, admin = [TopicPartition(topic, partition, offset)], self._pool.admin()

        def ask(timeout_s: float) -> None:
            next(iter(admin.delete_records(wanted, request_timeout=timeout_s).values())).result()

        with self._pool.ours(topic=topic, partition=partition):
            self._insist(ask)

    def close(self) -> None:
        """Give up connections; a read that is under way ends with ``JournalUnavailable``. Idempotent."""
        self._pool.close()

    # --- how ------------------------------------------------------------------------------------------------------
    def _read(
        self, consumer: Consumer, topic: str, partition: int, start: int, stop: int, keys: Collection[bytes] | None
    ) -> Iterator[Batch]:
        """From an assigned consumer, in batches, until its position (not a record: offsets have holes) is ``stop``."""
        wanted = None if keys is None else {*keys, None}  # what has no key may be an event of the client
        position, patience = start, Patience(self.settings.start_timeout_s)
        while position < stop:
            messages = self._poll(consumer, patience)
            if position == start:
                messages = [each for each in messages if belongs(each, topic, partition, start)]
            hits = messages if wanted is None else [each for each in messages if each.key() in wanted]
            if any(each.key() is None and each.error() is not None for each in hits):
                end = self._settle(messages, topic, partition, start) or 0
                messages = [each for each in messages if each.error() is None]
                hits = [each for each in hits if each.error() is None]
                position = max(position, end)
                patience.ended = True
            if messages:
                if not ascend(messages):
                    raise disorder(topic, partition, messages)
                position = max(position, offset_of(messages[-1]) + 1)
                if position > stop:
                    messages = [each for each in messages if offset_of(each) < stop]
                    hits = [each for each in hits if offset_of(each) < stop]
                width = sum(map(len, messages)) + sum(len(each.key() or b"") for each in messages)
                records = [record_of(partition, each) for each in hits if keys is None or each.key() is not None]
                seen = landmark_of(messages[0]) if messages else None
                yield Batch(records, len(messages), width, min(position, stop), seen)
                patience.renew()
            elif position < stop and not patience.explained and patience.waited_s > _SHORT_AFTER_S:
                patience.explained = True
                self.check()
                if patience.ended:
                    patience.cause = self._explain_end(topic, partition, position, stop)
            elif position >= stop:
                yield Batch((), 0, 0, stop)  # the rest is holes

    def _poll(self, consumer: Consumer, patience: Patience, records_max: int = _BATCH_RECORDS) -> list[Message]:
        """What has arrived; nothing after a tenth of a second."""
        self._pool.refuse_closed()
        with self._pool.ours():
            # consume() waits its whole time-out for a full batch: wait for one message, then take what is there.
            first = consumer.poll(_POLL_S)
            if first is None:
                patience.spend(lambda: patience.cause or self._silent(patience))
                return []
            return [first, *consumer.consume(records_max, 0)] if records_max else [first]

    def _settle(self, messages: Sequence[Message], topic: str, partition: int, start: int) -> int | None:
        """Raise for the errors among ``messages``; else where the partition ended (None: nobody said)."""
        end = None
        for message in messages:
            error = message.error()
            if error is None:
                continue
            name = error.name()
            if name == END_OF_PARTITION:
                end = offset_of(message)
            elif name in OUT_OF_RANGE:
                raise self._out_of_range(topic, partition, start)
            elif not passes(name):
                if self._manifest is not None:
                    self.check()
                facts = {"topic": topic, "partition": partition, "offset": offset_of(message)}
                raise translated(name, error.str(), self.settings, **facts)
            else:
                _logger.debug("%s[%d]: %s", topic, partition, self.settings.scrub(error.str()))
        return end

    def _out_of_range(self, topic: str, partition: int, start: int) -> SeekpointError:
        """Why an offset is not in the log. A re-created topic is a ``JournalMismatch`` before anything else."""
        if self._manifest is not None:
            self.check()
        with self._pool.borrowed() as consumer:
            low, high = self._watermarks(consumer, topic, partition)
        facts: dict[str, Any] = {"topic": topic, "partition": partition, "offset": start, "low": low, "high": high}
        if start < low:
            return JournalGap("history that is asked for is gone from the log", **facts)
        return LogTruncated("the log ends before an offset that was asked for", **facts)

    def _explain_end(self, topic: str, partition: int, position: int, stop: int) -> SeekpointError:
        """The log ends below ``stop`` (raises), or only a transaction that is still open hides the rest: what it is if
        that stays so."""
        end = self.uncommitted_end(topic, partition)
        if end < stop:
            facts: dict[str, Any] = {"topic": topic, "partition": partition, "offset": stop - 1, "high": end}
            raise LogTruncated("the log ends before an entry that was acknowledged", **facts)
        _logger.warning("%s[%d] waits at %d for an open transaction", topic, partition, position)
        if topic == self.settings.topic_name("journal"):
            return hidden_end_error(Extent(0, position, end), partition)
        facts = {"topic": topic, "partition": partition, "offset": position}
        return JournalUnavailable("an open transaction hides records: a projector that died, or a foreign one", **facts)

    def _read_to_end(self, consumer: Consumer, table: str, described: Mapping[str, Any]) -> list[Record]:
        """All records of an assigned compacted topic of one partition, to its end as of now."""
        topic, partition = self.settings.topic_name(table), 0
        records: list[Record] = []
        patience = Patience(self.settings.start_timeout_s)
        while True:
            messages = self._poll(consumer, patience)
            if not messages and described[topic].done():
                with self._pool.ours(topic=topic):
                    described[topic].result()  # the client is silent about a topic that is not there
            end = self._settle(messages, topic, partition, 0)
            found = [each for each in messages if each.error() is None and belongs(each, topic, partition, 0)]
            records += [record_of(partition, each) for each in found]
            if end is not None:
                return records
            if found:
                patience.renew()
                known = consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
                # The answer that brought the records also said where the partition ends: no need to wait for the event.
                if known is not None and records[-1].offset + 1 >= known[1] > 0:
                    return records

    def _watermarks(self, consumer: PooledClient, topic: str, partition: int) -> Watermarks:
        consumer.topics.add(topic)
        where = TopicPartition(topic, partition)
        found = self._insist(lambda timeout_s: consumer.get_watermark_offsets(where, timeout=timeout_s))
        if found is None:
            raise translated("_TIMED_OUT", "no watermarks", self.settings, topic=topic, partition=partition)
        return Watermarks(*found)

    def _assign(self, consumer: PooledClient, topic: str, partition: int, offset: int) -> None:
        """Start to read there. A topic that is new to a consumer in use is asked about first, or it waits a second."""
        assert consumer.kind != ENDS, "it would read what is not committed"
        if consumer.topics and topic not in consumer.topics:
            self._watermarks(consumer, topic, partition)
        consumer.topics.add(topic)
        with self._pool.ours(topic=topic, partition=partition):
            consumer.assign([TopicPartition(topic, partition, offset)])

    def _insist(self, ask: Callable[[float], T]) -> T:
        """What ``ask(timeout_s)`` gives once the leader of the partition is found: one that moved refuses first."""
        deadline = time.monotonic() + self.settings.start_timeout_s
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                return ask(left_s)
            except KafkaException as exc:
                error = exc.args[0]
                if time.monotonic() > deadline or not passes(error.name()):
                    if error.name() in NOT_FOUND and self._manifest is not None:
                        self.check()
                    raise translated(error.name(), error.str(), self.settings) from exc
                self._pool.refuse_closed()
                time.sleep(min(_RETRY_S, left_s))

    def _silent(self, patience: Patience) -> SeekpointError:
        waited = f"Kafka did not answer for {patience.waited_s:.0f} s"
        servers = self.settings.scrub(self.settings.bootstrap_servers)
        return JournalUnavailable(waited, journal=self.name, bootstrap_servers=servers)

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record and wait for its acknowledgement: for tables only, never for entries."""
        self._pool.produce(topic, partition, key, value)


def _ask_time(consumer: Consumer, topic: str, partition: int, timestamp_ms: int, timeout_s: float) -> int:
    """The first offset not older than the time; negative if there is none."""
    [found] = consumer.offsets_for_times([TopicPartition(topic, partition, max(0, timestamp_ms))], timeout=timeout_s)
    if found.error is not None:
        raise KafkaException(found.error)
    return int(found.offset)
