"""Copy a journal from an embedded log to Kafka: each record at its offset, then compare both, record by record.

Equal records at equal offsets lead to equal states, so every process goes on from there with its ids, its calls and its
idempotency keys. An interrupted copy is continued: what is in the target has to be the beginning of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from seekpoint.consumers.heartbeats.host import has_died
from seekpoint.consumers.heartbeats.liveness import Heartbeats
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
from seekpoint.consumers.staging.kafka_replay_errors import TopicErrors
from seekpoint.consumers.staging.kafka_replay_sender import KafkaSender
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ReplayMismatch, ReplayRefused, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Record

_TABLES = ("schemas", "deadletters")
"""What is moved beside the records. Heartbeats are of programs, and view and checkpoints are made again."""
_POLL_S = 0.1
_FLUSH_S = 30.0


class Moved(FrozenStruct, frozen=True, kw_only=True):
    """The outcome of a move."""

    journal: str
    records: int
    """How many records of the journal the target has now. All of them were compared."""
    sent: int
    """How many of them were sent this time; the others were there before."""
    submissions: int
    """How many submissions that no worker had read were sent."""


class JournalMove:
    """The move of one journal. Blocking; for one thread. The topics of the target exist.

    Raises ``ReplayRefused`` if programs use the source, if its history was trimmed, if the target has other records or
    another number of partitions; ``ReplayMismatch`` if the copy differs in the end; ``JournalUnavailable``.
    """

    def __init__(self, source: SqliteLog, target: Settings, advance: Callable[[int], None] = lambda records: None):
        self._source = source
        self._settings = target
        self._advance = advance
        self._failure: SeekpointError | None = None

    def run(self) -> Moved:
        """Copy what is missing, then compare everything."""
        reader = KafkaReader(self._settings)
        try:
            self._check(reader)
            for name in _TABLES:
                self._copy_table(reader, name)
            sent = self._copy(reader, self._source, "journal", [0] * self._source.partitions)
            inbox = self._source.inbox()
            starts = [self._unread(partition) for partition in range(self._source.partitions)]
            submissions = self._copy_inbox(reader, inbox, starts)
            records = sum(self._compare(reader, partition) for partition in range(self._source.partitions))
            return Moved(journal=self._settings.journal, records=records, sent=sent, submissions=submissions)
        finally:
            reader.close()

    # --- before
    def _check(self, reader: KafkaReader) -> None:
        source, file = self._source, str(self._source.file.path)
        nodes = [one.node_id for one in Heartbeats(source, source.settings).read().heartbeats.values()
                 if not has_died(one.process)]  # fmt: skip
        if nodes:
            raise ReplayRefused("programs use the journal", file=file, found=", ".join(nodes), hint="stop them first")
        if reader.partitions != source.partitions:
            raise ReplayRefused(
                "the target has another number of partitions", found=reader.partitions, expected=str(source.partitions),
                hint="name a journal that does not exist yet, which is then made with as many: --as NAME",
            )  # fmt: skip
        for partition in range(source.partitions):
            if source.watermarks(partition).low:
                raise ReplayRefused(
                    "the beginning of the source's history was trimmed", file=file, partition=partition,
                    hint="move single processes: seekpoint export, seekpoint import",
                )  # fmt: skip

    def _copy_table(self, reader: KafkaReader, name: str) -> None:
        known, table = reader.table(name).items(), reader.table(name)
        for key, value in self._source.table(name).stream():
            if key not in known:
                table.put(key, value)

    # --- the records
    def _copy(self, reader: KafkaReader, source: SqliteLog, topic: str, starts: list[int]) -> int:
        """Send the records of a topic that the target does not have; return their number."""
        sender = self._sender(topic)
        try:
            count = 0
            for partition, start in enumerate(starts):
                there = reader.marks_of(self._settings.topic_name(topic), partition).high
                self._check_beginning(reader, partition, there)
                for record in _records(source, partition, max(start, there)):
                    self._send(sender, record)
                    count += 1
            if sender.flush(_FLUSH_S):
                raise ReplayRefused("Kafka did not take all records in time", hint="run the command again: it goes on")
            self._raise_failure()
            return count
        finally:
            sender.close()

    def _copy_inbox(self, reader: KafkaReader, inbox: SqliteLog, starts: list[int]) -> int:
        """Send the submissions that were not read. One that is sent twice counts once, by its id."""
        sender, count = self._sender("inbox"), 0
        try:
            for partition, start in enumerate(starts):
                for record in _records(inbox, partition, start):
                    self._send(sender, record)
                    count += 1
            sender.flush(_FLUSH_S)
            self._raise_failure()
            return count
        finally:
            sender.close()

    def _sender(self, topic: str) -> KafkaSender:
        name = self._settings.topic_name(topic)
        errors = TopicErrors(Cluster(name="target", settings=self._settings), name)
        return KafkaSender(name, self._settings, errors, linger_ms=5.0)

    def _send(self, sender: KafkaSender, record: Record) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is not None and self._failure is None:
                self._failure = sender.refusal(error)
            self._advance(1)

        while True:
            try:
                sender.produce(record.value, record.key, record.partition, delivered, record.timestamp_ms, None)
                sender.poll(0)
                break
            except BufferError:
                sender.poll(_POLL_S)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _unread(self, partition: int) -> int:
        """Return the first submission that some group of workers has not read; the first of all without a group."""
        with self._source.file.reading() as connection:
            (done,) = connection.execute("SELECT min(done) FROM commits WHERE partition = ?", (partition,)).fetchone()
        return max(done or 0, self._source.inbox().watermarks(partition).low)

    # --- the comparison
    def _check_beginning(self, reader: KafkaReader, partition: int, there: int) -> None:
        """Raise ``ReplayRefused`` unless the target's records are the beginning of the source's."""
        high = self._source.watermarks(partition).high
        if there > high or self._difference(reader, partition, there) is not None:
            raise ReplayRefused(
                "the target has other records", partition=partition, journal=self._settings.journal,
                hint="copy into a journal that does not exist yet: --as NAME",
            )  # fmt: skip

    def _compare(self, reader: KafkaReader, partition: int) -> int:
        """Compare a partition, and return the number of its records. Raises ``ReplayMismatch``."""
        high = self._source.watermarks(partition).high
        difference = self._difference(reader, partition, high)
        if difference is not None or reader.watermarks(partition).high != high:
            offset = high if difference is None else difference
            raise ReplayMismatch(
                "the copy differs from the source", partition=partition, offset=offset,
                hint="did a program write to one of them meanwhile? stop it, and copy into another journal: --as NAME",
            )  # fmt: skip
        return high

    def _difference(self, reader: KafkaReader, partition: int, stop: int) -> int | None:
        """Return the first offset below ``stop`` at which the records differ."""
        if not stop:
            return None
        ours = _records(self._source, partition, 0)
        for batch in reader.read(partition, 0, stop):
            for record in batch.records:
                if (own := next(ours, None)) is None or record != own:
                    return record.offset
        return None


def _records(log: SqliteLog, partition: int, start: int) -> Iterator[Record]:
    for batch in log.read(partition, start, log.watermarks(partition).high):
        yield from batch.records
