"""The reader of a real Kafka keeps the promises of a reader, and those only Kafka can break."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from raw_kafka import RawKafka, RawRecord
from reader_contract import ReaderContract, read_all
from seekpoint.compose import LocalCluster
from seekpoint.compose.creation import create_topics_sync
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    InvalidSetting,
    JournalGap,
    JournalMismatch,
    JournalUnavailable,
    LogTruncated,
    NewerFormat,
    TransactionOpen,
)
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY

pytestmark = pytest.mark.cluster


class KafkaBench:
    """A journal on the session's Kafka."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.raw = RawKafka(settings)
        self.reader: KafkaReader = KafkaReader(settings)
        self._others: list[KafkaReader] = []

    def write(self, partition: int, records: Sequence[RawRecord]) -> list[int]:
        return self.raw.write(partition, records)

    def trim(self, partition: int, offset: int) -> None:
        self.raw.trim(partition, offset)

    def other(self) -> LogReader:
        self._others.append(KafkaReader(self.settings))
        return self._others[-1]

    def close(self) -> None:
        for reader in (self.reader, *self._others):
            reader.close()


@pytest.fixture
def bench(settings: Settings) -> Iterator[KafkaBench]:
    create_topics_sync(settings)
    bench = KafkaBench(settings)
    yield bench
    bench.close()


class TestKafkaReader(ReaderContract):
    """Inherited."""


def wait_for_end(bench: KafkaBench, partition: int, offset: int) -> None:
    """Until the partition ends at ``offset``: the markers of a transaction come after its answer."""
    deadline = time.monotonic() + 60
    while (high := bench.reader.watermarks(partition).high) != offset:
        assert time.monotonic() < deadline, f"the partition ends at {high}, not at {offset}"


# --- offsets have holes -----------------------------------------------------------------------------------------------
def test_records_of_an_aborted_transaction_are_never_seen(bench: KafkaBench) -> None:
    """Nor counted; the read ends though the log's last offsets hold nothing."""
    bench.write(1, [(b"a", b"1", 0)])
    transaction = bench.raw.transaction()
    bench.raw.write_in(transaction, 1, [(b"a", b"aborted", 0), (b"a", b"aborted", 0)])
    transaction.abort_transaction(20)
    wait_for_end(bench, 1, 4)
    batches = list(bench.reader.read(1, 0, 4))
    assert [record.value for batch in batches for record in batch.records] == [b"1"]
    assert (sum(batch.scanned for batch in batches), batches[-1].next_offset) == (1, 4)


def test_a_read_ends_at_the_marker_of_a_committed_transaction(bench: KafkaBench) -> None:
    """The marker takes an offset; the next record lies behind it."""
    transaction = bench.raw.transaction()
    bench.raw.write_in(transaction, 1, [(b"a", b"1", 0)])
    transaction.commit_transaction(20)
    wait_for_end(bench, 1, 2)
    assert [record.offset for record in read_all(bench.reader, 1)] == [0]
    bench.write(1, [(b"a", b"2", 0)])
    assert [record.offset for record in read_all(bench.reader, 1)] == [0, 2]
    assert [record.offset for record in read_all(bench.reader, 1, 1, 2)] == []


def test_an_open_transaction_hides_what_comes_after_it(bench: KafkaBench) -> None:
    """The log ends before it; asking beyond is a wait that ends typed, or with what was committed."""
    bench.write(1, [(b"a", b"1", 0)])
    transaction = bench.raw.transaction()
    bench.raw.write_in(transaction, 1, [(b"a", b"open", 0)])
    bench.write(1, [(b"a", b"behind", 0)])
    assert bench.reader.watermarks(1).high == 1
    assert [record.value for record in read_all(bench.reader, 1)] == [b"1"]
    impatient = KafkaReader(replace(bench.settings, start_timeout_s=2.0))
    try:
        with pytest.raises(TransactionOpen):
            read_all(impatient, 1, 0, 3)
    finally:
        impatient.close()
    threading.Timer(0.5, transaction.commit_transaction).start()
    assert [record.value for record in read_all(bench.reader, 1, 0, 3)] == [b"1", b"open", b"behind"]


# --- what is not this journal -----------------------------------------------------------------------------------------
def test_missing_topics_are_a_mismatch_that_names_the_command(settings: Settings) -> None:
    """Not an endless wait, not an empty journal."""
    reader = KafkaReader(settings)
    with pytest.raises(JournalMismatch, match="seekpoint topics create"):
        reader.connect()
    reader.close()


def test_a_journal_topic_that_was_recreated_is_refused_at_the_start(bench: KafkaBench) -> None:
    """The old offsets would be accepted; the id tells."""
    bench.raw.recreate()
    with pytest.raises(JournalMismatch, match="re-created"):
        bench.reader.connect()


def test_a_journal_topic_that_is_recreated_under_a_reader_is_refused(bench: KafkaBench) -> None:
    """Whether its offsets still exist or not."""
    bench.write(1, [(b"a", b"1", 0), (b"a", b"2", 0)])
    assert len(read_all(bench.reader, 1)) == 2
    bench.raw.recreate()
    bench.write(1, [(b"a", b"another", 0)])
    with pytest.raises(JournalMismatch):
        read_all(bench.reader, 1, 0, 2)
    with pytest.raises(JournalMismatch):
        bench.reader.watermarks(1)
    with pytest.raises(JournalMismatch):
        bench.reader.check()


def test_added_partitions_are_a_mismatch(bench: KafkaBench) -> None:
    """Keys would map elsewhere."""
    bench.reader.connect()
    bench.raw.grow(5)
    deadline = time.monotonic() + 60
    with pytest.raises(JournalMismatch, match="partition count"):
        while time.monotonic() < deadline:  # the broker tells of the fifth partition a moment after it made it
            bench.reader.check()


def test_a_journal_of_a_newer_format_is_not_read(bench: KafkaBench) -> None:
    """A typed stop; it goes on once the manifest is one that is known."""
    table = bench.reader.table("schemas")
    manifest = table.items()[MANIFEST_KEY]
    table.put(MANIFEST_KEY, manifest.replace(b'"format":%d' % FORMAT, b'"format":99'))
    newer = bench.other()
    with pytest.raises(NewerFormat):
        newer.watermarks(0)
    table.put(MANIFEST_KEY, manifest)
    assert newer.watermarks(0) == (0, 0)


# --- a Kafka that does not answer -------------------------------------------------------------------------------------
def test_a_kafka_that_is_not_there_is_unavailable_in_time() -> None:
    """``start_timeout_s``, not for ever."""
    reader = KafkaReader(Settings(bootstrap_servers="127.0.0.1:9", start_timeout_s=1.0))
    began = time.monotonic()
    with pytest.raises(JournalUnavailable, match=r"127\.0\.0\.1:9"):
        reader.connect()
    assert time.monotonic() - began < 15
    reader.close()


def test_a_kafka_that_falls_silent_is_unavailable_in_time_and_then_read_again(
    bench: KafkaBench, cluster: LocalCluster
) -> None:
    """Every call ends typed; the same reader goes on once Kafka does."""
    bench.write(1, [(b"a", b"1", 0)])
    reader = KafkaReader(replace(bench.settings, start_timeout_s=1.0))
    _eventually_reads_one(reader)
    calls = (
        lambda: reader.watermarks(1),
        lambda: read_all(reader, 1, 0, 1),
        lambda: reader.offset_at(1, 0),
        lambda: reader.table("nodes").items(),
        lambda: reader.table("nodes").put(b"a", b"1"),
        reader.check,
    )
    cluster.brokers[0].pause()
    try:
        for call in calls:
            began = time.monotonic()
            with pytest.raises(JournalUnavailable):
                call()
            assert time.monotonic() - began < 15
    finally:
        cluster.brokers[0].resume()
    patient = KafkaReader(bench.settings)
    _eventually_reads_one(patient)
    patient.close()
    _eventually_reads_one(reader)
    reader.close()


def _eventually_reads_one(reader: KafkaReader) -> None:
    """A second is little on a busy machine: what counts is that the same reader gets there."""
    deadline = time.monotonic() + 60
    while True:
        try:
            assert len(read_all(reader, 1)) == 1
        except JournalUnavailable:
            assert time.monotonic() < deadline
        else:
            return


def test_a_setting_the_client_does_not_know_is_named(bench: KafkaBench) -> None:
    """Typed, not a traceback of the client."""
    reader = KafkaReader(replace(bench.settings, kafka_consumer={"fetch.wait.maxx.ms": "1"}))
    with pytest.raises(InvalidSetting, match=r"fetch\.wait\.maxx\.ms"):
        reader.connect()


def test_a_closed_reader_stops_retrying() -> None:
    """Not for the minute that a missing leader may take: a thread would outlive its node."""
    reader, asked = KafkaReader(Settings(start_timeout_s=60.0)), []

    def ask(timeout_s: float) -> None:
        asked.append(timeout_s)
        reader.close()
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))

    with pytest.raises(JournalUnavailable, match="closed"):
        reader._fetcher.ask_leader(ask)
    assert len(asked) == 1


def test_a_closed_reader_raises(bench: KafkaBench) -> None:
    """Also to a read that is under way."""
    bench.write(1, [(b"a", b"1", 0)])
    bench.reader.watermarks(1)
    bench.reader.close()
    with pytest.raises(JournalUnavailable, match="closed"):
        bench.reader.watermarks(1)


def test_a_failed_read_leaves_a_reader_that_works(bench: KafkaBench) -> None:
    """librdkafka is silent for ever after an offset out of range: such a consumer is not used again."""
    bench.write(1, [(b"a", b"1", 0), (b"a", b"2", 0)])
    bench.trim(1, 1)
    for _ in range(3):
        with pytest.raises(JournalGap):
            read_all(bench.reader, 1, 0)
        with pytest.raises(LogTruncated):
            read_all(bench.reader, 1, 7, 8)
        assert [record.offset for record in read_all(bench.reader, 1, 1)] == [1]


def test_a_table_reads_only_what_is_new(bench: KafkaBench) -> None:
    """Its items are kept from call to call, so that looking every few seconds stays cheap."""
    table = bench.reader.table("nodes")
    table.put(b"a", b"1")
    first = table.items()
    table.put(b"b", b"2")
    assert first == {b"a": b"1"}
    assert table.items() == {b"a": b"1", b"b": b"2"}
