"""Fetches from single partitions: records, end offsets, offsets by time; and the reasons why nothing arrives.

The fetcher works on consumers that it borrows from a ``KafkaPool``. ``KafkaReader`` uses it for the journal's topics.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from seekpoint.consumers.kafka.kafka_client import Consumer, KafkaError, KafkaException, Message, TopicPartition
from seekpoint.consumers.kafka.kafka_errors import END_OF_PARTITION, NOT_FOUND, OUT_OF_RANGE, passes, translated
from seekpoint.consumers.kafka.kafka_pool import END_READS, POINT_READS, KafkaPool, PooledClient
from seekpoint.consumers.kafka.messages import (
    IdleTimeout,
    are_ascending,
    disorder_error,
    is_of_assignment,
    landmark_of,
    offset_of,
    record_of,
)
from seekpoint.consumers.kafka.reach import refusals
from seekpoint.consumers.log_reading.stable_end import hidden_end_error
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalGap, JournalUnavailable, LogTruncated, SeekpointError
from seekpoint.schemas.log.log_ports import Batch, Extent, Record, Watermarks

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

T = TypeVar("T")

_POLL_S = 0.1
_RETRY_S = 0.05
_PATIENCE_S = 0.1
"""How long the first question to a partition's leader waits. Each further one waits as long as there is time."""
_BATCH_RECORDS = 5_000
_DIAGNOSE_AFTER_S = 1.0
"""A partition may end below the requested offset for this long before the cause is looked up: a leader may move."""
_LOOKS_S = (1.0, 1.6)
"""When the first read, to which nothing answers, looks whether the addresses refuse connections. A broker may start."""
_START_KAFKA = (
    'start Kafka (eval "$(seekpoint up)" does it on this machine), or correct bootstrap_servers'
    ' (SEEKPOINT_BOOTSTRAP_SERVERS, seekpoint.toml); a journal in a file needs no Kafka: Node.local("runs.db"), or'
    " SEEKPOINT_JOURNAL_URL=sqlite:///runs.db"
)


class PartitionFetcher:
    """Fetches from single partitions. Thread safe, blocking.

    ``check`` compares the topics with the journal's manifest, if that is known, so that a re-created topic is a
    ``JournalMismatch`` and not a missing offset. Raises ``JournalUnavailable`` after ``start_timeout_s`` of silence.
    """

    def __init__(self, settings: Settings, pool: KafkaPool, check: Callable[[], None]) -> None:
        self._settings = settings
        self._pool = pool
        self._check = check
        self._was_refused = False

    # --- records ------------------------------------------------------------------------------------------------------
    def assign(self, consumer: PooledClient, topic: str, partition: int, offset: int) -> None:
        """Start to read at ``offset``.

        If the topic is new to a consumer in use, its watermarks are asked for first. Otherwise the consumer would wait
        a second for the topic's leader.
        """
        assert consumer.kind != END_READS, "it would read records that are not committed"
        if consumer.topics and topic not in consumer.topics:
            self.watermarks(consumer, topic, partition)
        consumer.topics.add(topic)
        with self._pool.translating_errors(topic=topic, partition=partition):
            consumer.assign([TopicPartition(topic, partition, offset)])

    def batches(
        self, consumer: PooledClient, topic: str, partition: int, start: int, stop: int, keys: Collection[bytes] | None
    ) -> Iterator[Batch]:
        """Yield batches of the records in [start, stop) whose key is in ``keys`` (None: all).

        The read ends when the consumer's position is ``stop``, not at a record, because offsets have holes.
        """
        self.assign(consumer, topic, partition, start)
        wanted = None if keys is None else {*keys, None}  # a message without a key may be an event of the client
        position, idle = start, IdleTimeout(self._settings.start_timeout_s)
        while position < stop:
            messages = self._poll(consumer, idle)
            if position == start:
                messages = [each for each in messages if is_of_assignment(each, topic, partition, start)]
            hits = messages if wanted is None else [each for each in messages if each.key() in wanted]
            if any(each.key() is None and each.error() is not None for each in hits):
                end = self._end_among(messages, topic, partition, start) or 0
                messages = [each for each in messages if each.error() is None]
                hits = [each for each in hits if each.error() is None]
                position = max(position, end)
                idle.reached_end = True
            if messages:
                if not are_ascending(messages):
                    raise disorder_error(topic, partition, messages)
                position = max(position, offset_of(messages[-1]) + 1)
                if position > stop:
                    messages = [each for each in messages if offset_of(each) < stop]
                    hits = [each for each in hits if offset_of(each) < stop]
                width = sum(map(len, messages)) + sum(len(each.key() or b"") for each in messages)
                records = [record_of(partition, each) for each in hits if keys is None or each.key() is not None]
                first, last = (landmark_of(messages[0]), landmark_of(messages[-1])) if messages else (None, None)
                yield Batch(records, len(messages), width, min(position, stop), first, last)
                idle.restart()
            elif position < stop and not idle.is_diagnosed and idle.waited_s > _DIAGNOSE_AFTER_S:
                idle.is_diagnosed = True
                self._check()
                if idle.reached_end:
                    idle.cause = self._cause_of_end(topic, partition, position, stop)
            elif position >= stop:
                yield Batch((), 0, 0, stop)  # only holes are left

    def first_message(self, topic: str, partition: int, position: int) -> Message | None:
        """Return the first committed message at or after ``position``; None if the partition ends without one."""
        idle = IdleTimeout(self._settings.start_timeout_s)
        with self._pool.borrowed(POINT_READS) as consumer:
            self.assign(consumer, topic, partition, position)
            while True:
                messages = self._poll(consumer, idle, records_max=0)
                messages = [each for each in messages if is_of_assignment(each, topic, partition, position)]
                end = self._end_among(messages, topic, partition, position)
                found = next((each for each in messages if each.error() is None), None)
                if found is not None or end is not None:
                    return found

    def read_to_end(self, consumer: Consumer, topic: str, described: Mapping[str, Any]) -> list[Record]:
        """Return all records of an assigned compacted topic with one partition, to its end as of now.

        ``described`` has the pending description of the topic: the client reports nothing about a missing topic.
        Raises ``JournalUnavailable`` after two seconds if every address refuses connections.
        """
        partition = 0
        records: list[Record] = []
        idle, looks = IdleTimeout(self._settings.start_timeout_s), list(_LOOKS_S)
        while True:
            messages = self._poll(consumer, idle)
            if not messages and looks and idle.waited_s > looks[0]:
                looks.pop(0)
                self._look_at_addresses(is_last=not looks)
            if not messages and described[topic].done():
                with self._pool.translating_errors(topic=topic):
                    described[topic].result()
            end = self._end_among(messages, topic, partition, 0)
            found = [each for each in messages if each.error() is None and is_of_assignment(each, topic, partition, 0)]
            records += [record_of(partition, each) for each in found]
            if end is not None:
                return records
            if found:
                idle.restart()
                known = consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
                # The response with the records also has the partition's end, so the event need not be awaited.
                if known is not None and records[-1].offset + 1 >= known[1] > 0:
                    return records

    # --- offsets ------------------------------------------------------------------------------------------------------
    def watermarks(self, consumer: PooledClient, topic: str, partition: int) -> Watermarks:
        """Return the first and the next offset as ``consumer`` sees them."""
        consumer.topics.add(topic)
        return self.ask_leader(lambda timeout_s: _watermarks(consumer, topic, partition, timeout_s))

    def uncommitted_end(self, topic: str, partition: int) -> int:
        """Return the partition's end, open transactions included."""
        with self._pool.borrowed(END_READS) as consumer:
            return self.watermarks(consumer, topic, partition).high

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than ``timestamp_ms``; the high watermark if none is."""
        with self._pool.borrowed() as consumer:
            found = self.ask_leader(
                lambda timeout_s: _offset_for_time(consumer, topic, partition, timestamp_ms, timeout_s)
            )
            return found if found >= 0 else self.watermarks(consumer, topic, partition).high

    def ask_leader(self, ask: Callable[[float], T]) -> T:
        """Return what ``ask(timeout_s)`` returns, asked again while the partition's leader is being found.

        The first time-out is short, because a client that does not know the leader yet can miss the answer that names
        it. Such a client looks again only 0.7 s later (librdkafka 2.13, one of 60 starts); asked again, it knows. The
        next question has all the time that is left: the client closes a connection that has not answered in time, so
        it would never hear a leader that takes a second.
        """
        deadline, patience_s = time.monotonic() + self._settings.start_timeout_s, _PATIENCE_S
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                return ask(min(left_s, patience_s))
            except KafkaException as exc:
                error = exc.args[0]
                if time.monotonic() > deadline or not passes(error.name()):
                    if error.name() in NOT_FOUND:
                        self._check()
                    raise translated(error.name(), error.str(), self._settings) from exc
                if error.name() == "_TIMED_OUT":
                    patience_s = math.inf
                else:
                    time.sleep(min(_RETRY_S, left_s))
            self._pool.refuse_closed()

    # --- messages and events ------------------------------------------------------------------------------------------
    def _poll(self, consumer: Consumer, idle: IdleTimeout, records_max: int = _BATCH_RECORDS) -> list[Message]:
        """Return the messages that have arrived; none after a tenth of a second."""
        self._pool.refuse_closed()
        with self._pool.translating_errors():
            # consume() waits its whole time-out for a full batch: wait for one message, then take what is there.
            first = consumer.poll(_POLL_S)
            if first is None:
                idle.check(lambda: idle.cause or self._silence_error(idle))
                return []
            return [first, *consumer.consume(records_max, 0)] if records_max else [first]

    def _end_among(self, messages: Sequence[Message], topic: str, partition: int, start: int) -> int | None:
        """Raise for the errors among ``messages``; return the partition's end if one of the events reports it."""
        end = None
        for message in messages:
            error = message.error()
            if error is None:
                continue
            name = error.name()
            if name == END_OF_PARTITION:
                end = offset_of(message)
            elif name in OUT_OF_RANGE:
                raise self._out_of_range_error(topic, partition, start)
            elif not passes(name):
                self._check()
                at = offset_of(message)
                raise translated(name, error.str(), self._settings, topic=topic, partition=partition, offset=at)
            else:
                _logger.debug("%s[%d]: %s", topic, partition, self._settings.scrub(error.str()))
        return end

    def _out_of_range_error(self, topic: str, partition: int, start: int) -> SeekpointError:
        """Return why the log does not have an offset. Raises ``JournalMismatch`` first if a topic was re-created."""
        self._check()
        with self._pool.borrowed() as consumer:
            low, high = self.watermarks(consumer, topic, partition)
        if start < low:
            message = "the requested history is gone from the log"
            return JournalGap(message, topic=topic, partition=partition, offset=start, low=low, high=high)
        message = "the log ends before a requested offset"
        return LogTruncated(message, topic=topic, partition=partition, offset=start, low=low, high=high)

    def _cause_of_end(self, topic: str, partition: int, position: int, stop: int) -> SeekpointError:
        """Return the error to raise if an open transaction hides the records in [position, stop) for too long.

        Raises ``LogTruncated`` if the log itself ends below ``stop``.
        """
        end = self.uncommitted_end(topic, partition)
        if end < stop:
            message = "the log ends before an entry that was acknowledged"
            raise LogTruncated(message, topic=topic, partition=partition, offset=stop - 1, high=end)
        _logger.warning("%s[%d] waits at %d for an open transaction", topic, partition, position)
        if topic == self._settings.topic_name("journal"):
            return hidden_end_error(Extent(0, position, end), partition)
        message = "an open transaction hides records: a projector that died, or another application's"
        return JournalUnavailable(message, topic=topic, partition=partition, offset=position)

    def _look_at_addresses(self, *, is_last: bool) -> None:
        """Raise ``JournalUnavailable`` if every address refuses connections, and did so a moment ago too."""
        refused = refusals(self._settings.bootstrap_servers)
        if refused and is_last and self._was_refused:
            tried = self._settings.scrub("; ".join(refused))
            raise JournalUnavailable(
                "no Kafka accepts connections", journal=self._settings.journal, tried=tried, hint=_START_KAFKA
            )
        self._was_refused = bool(refused)

    def _silence_error(self, idle: IdleTimeout) -> SeekpointError:
        text = f"Kafka did not answer for {idle.waited_s:.0f} s"
        servers = self._settings.scrub(self._settings.bootstrap_servers)
        return JournalUnavailable(text, journal=self._settings.journal, bootstrap_servers=servers)


def _watermarks(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> Watermarks:
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
    if found is None:  # as the client says it in some cases
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no watermarks of {topic}[{partition}]"))
    return Watermarks(*found)


def _offset_for_time(consumer: Consumer, topic: str, partition: int, timestamp_ms: int, timeout_s: float) -> int:
    """Return the first offset that is not older than the time; negative if there is none."""
    [found] = consumer.offsets_for_times([TopicPartition(topic, partition, max(0, timestamp_ms))], timeout=timeout_s)
    if found.error is not None:
        raise KafkaException(found.error)
    return int(found.offset)
