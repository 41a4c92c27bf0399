"""The ``LogReader`` of a real Kafka. ``kafka_client`` is the only module of this root that imports the client.

Nothing happens before the first use, which compares the topics with the journal's manifest: ids and partition count.
Later reads compare again while they run, at most once a second. A topic that is re-created under a running reader is
therefore a ``JournalMismatch`` within that second, and at once where an offset is out of range.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from seekpoint.consumers.kafka.compacted_tables import KafkaTable, newest_of
from seekpoint.consumers.kafka.kafka_checkpoints import KafkaCheckpoints
from seekpoint.consumers.kafka.kafka_client import TopicPartition
from seekpoint.consumers.kafka.kafka_pool import END_READS, KafkaPool
from seekpoint.consumers.kafka.kafka_tail import KafkaTail
from seekpoint.consumers.kafka.kafka_topics import KafkaTopics
from seekpoint.consumers.kafka.messages import landmark_of, offset_of, record_of
from seekpoint.consumers.kafka.partition_fetcher import PartitionFetcher
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch, LogTruncated
from seekpoint.schemas.log.log_ports import Batch, Extent, Record, Watermarks
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, newest_schemas, writer_schemas
from seekpoint.schemas.wire.codec import Codec

if TYPE_CHECKING:
    from seekpoint.consumers.log_reading.group_members import GroupMember


class KafkaReader:
    """Reads a journal's topics. Thread safe, blocking; connects when first used.

    Raises ``JournalUnavailable`` after ``start_timeout_s`` of silence, ``JournalMismatch`` if the topics are not (or no
    longer) those of the manifest, ``NewerFormat``, and what ``LogReader`` says.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.journal
        self._pool = KafkaPool(settings)
        self._topics = KafkaTopics(settings, self._pool)
        self._fetcher = PartitionFetcher(settings, self._pool, self._check_if_connected)
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._manifest: Manifest | None = None
        self._codec: Codec | None = None
        self._tables: dict[str, KafkaTable] = {}
        self._ends: dict[int, int] = {}

    # --- the manifest -------------------------------------------------------------------------------------------------
    @property
    def partitions(self) -> int:
        """The journal's number of partitions."""
        return self.connect().partitions

    @property
    def codec(self) -> Codec:
        """The decoder of the journal's entries, for every writer schema."""
        self.connect()
        assert self._codec is not None
        return self._codec

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self.connect().limits

    @property
    def journal_format(self) -> int:
        """The journal's format when this reader connected."""
        return self.connect().format

    def connect(self) -> Manifest:
        """Return the journal's manifest. The first call compares it with the topics; later calls cost nothing."""
        if self._manifest is None:
            with self._connecting:
                if self._manifest is None:
                    self._manifest = self._verified_manifest()
        return self._manifest

    def _verified_manifest(self) -> Manifest:
        topic = self.settings.topic_name("schemas")
        with self._pool.borrowed() as consumer:
            # Assigned before anything else: a consumer that waits for its first connection waits a second.
            self._fetcher.assign(consumer, topic, 0, 0)
            described = self._topics.describe()
            records = newest_of(self._fetcher.read_to_end(consumer, topic, described))
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
        """Compare the topics with the manifest now: about two milliseconds. Raises ``JournalMismatch``."""
        self._topics.compare(self.connect(), self._topics.describe())

    def _check_if_connected(self) -> None:
        if self._manifest is not None:
            self.check()

    @property
    def topic_id(self) -> str:
        """The id of the journal's topic. Offsets are only valid together with it."""
        return self.connect().topic_ids[self.settings.topic_name("journal")]

    def found_id(self, name: str) -> str | None:
        """Return the present id of the topic ``NAME.name``; None if there is no such topic."""
        return self._topics.found_id(self.settings.topic_name(name))

    # --- LogReader ----------------------------------------------------------------------------------------------------
    def watermarks(self, partition: int) -> Watermarks:
        """Return the first and the next offset; ``high`` is below any transaction that is still open."""
        self.connect()
        known = self._ends.get(partition, 0)  # read before the request: of two concurrent answers the older may be last
        found = self.marks_of(self.settings.topic_name("journal"), partition)
        if found.high < known:
            self.check()
            raise LogTruncated(
                "the log became shorter", journal=self.name, partition=partition, low=found.low, high=found.high
            )
        with self._lock:
            self._ends[partition] = max(found.high, self._ends.get(partition, 0))
        return found

    def extent(self, partition: int) -> Extent:
        """Return the watermarks, and the end with the records that an open transaction hides.

        It costs one request if nothing was written since the last call: an offset that was stable stays stable.
        """
        self.connect()
        known = self._ends.get(partition, 0)  # read before the request, as in `watermarks`
        with self._pool.borrowed(END_READS) as consumer:
            low, end = self._fetcher.watermarks(consumer, self.settings.topic_name("journal"), partition)
        if known == end:
            return Extent(low, end, end)
        low, high = self.watermarks(partition)
        return Extent(low, high, max(end, high))

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        """Yield batches of the records in [start, stop) whose key is in ``keys`` (None: all); see ``LogReader``."""
        manifest = self.connect()
        if start >= stop:
            return
        described = self._topics.describe_if_due()
        with self._pool.borrowed() as consumer:
            topic = self.settings.topic_name("journal")
            yield from self._fetcher.batches(consumer, topic, partition, start, stop, keys)
        if described is not None:
            self._topics.compare_after_read(manifest, described)

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than ``timestamp_ms``; the high watermark if none is."""
        self.connect()
        return self._fetcher.offset_at(self.settings.topic_name("journal"), partition, timestamp_ms)

    def leader_epoch_at(self, partition: int, offset: int) -> int:
        """Return the leader epoch of the record at exactly ``offset``; -1 if there is none."""
        self.connect()
        found = self._fetcher.first_message(self.settings.topic_name("journal"), partition, offset)
        return -1 if found is None or offset_of(found) != offset else landmark_of(found).leader_epoch

    def tail(self, *, is_steady: bool = False) -> KafkaTail:
        """Return a new tail with a consumer of its own. The caller closes it."""
        return KafkaTail(self.settings, is_steady=is_steady)

    def table(self, name: str) -> KafkaTable:
        """Return the compacted topic ``NAME.name``. It caches values: ``items()`` reads only newer records."""
        with self._lock:
            return self._tables.setdefault(name, KafkaTable(self, name))

    def group_members(self) -> list[GroupMember]:
        """Return the members of the journal's consumer groups. Raises ``JournalUnavailable``."""
        from seekpoint.consumers.kafka.kafka_members import group_members

        return group_members(self.settings, self._pool)

    def checkpoints(self) -> KafkaCheckpoints:
        """Return the reader of the checkpoints, which uses the same consumers."""
        return KafkaCheckpoints(self)

    # --- TopicReader --------------------------------------------------------------------------------------------------
    def marks_of(self, topic: str, partition: int) -> Watermarks:
        """Return the partition's first offset and its stable end."""
        with self._pool.borrowed() as consumer:
            return self._fetcher.watermarks(consumer, topic, partition)

    def extent_of(self, kind: str, partition: int) -> Extent:
        """Return the extent of a partition of the topic ``NAME.kind``: what an open transaction hides there, too."""
        topic = self.settings.topic_name(kind)
        end = self.uncommitted_end(topic, partition)  # first: what ends meanwhile hides nothing
        low, high = self.marks_of(topic, partition)
        return Extent(low, high, max(end, high))

    def uncommitted_end(self, topic: str, partition: int) -> int:
        """Return the partition's end, open transactions included."""
        return self._fetcher.uncommitted_end(topic, partition)

    def read_topic(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Batch]:
        """Yield batches of the committed records in [start, stop), without the comparison that ``read`` makes."""
        with self._pool.borrowed() as consumer:
            yield from self._fetcher.batches(consumer, topic, partition, start, stop, None)

    def read_newer(self, topic: str, partition: int, start: int) -> tuple[list[Record], int]:
        """Return the committed records from ``start`` on, and the partition's end."""
        with self._pool.borrowed() as consumer:
            low, high = self._fetcher.watermarks(consumer, topic, partition)
            records: list[Record] = []
            if max(start, low) < high:
                for batch in self._fetcher.batches(consumer, topic, partition, max(start, low), high, None):
                    records += batch.records
            return records, high

    def first_at(self, topic: str, partition: int, position: int) -> Record | None:
        """Return the first committed record at or after ``position``; None if there is none."""
        found = self._fetcher.first_message(topic, partition, position)
        return None if found is None else record_of(partition, found)

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record of a table and wait for its acknowledgement. Never use it for entries."""
        self._pool.produce(topic, partition, key, value)

    # --- the end ------------------------------------------------------------------------------------------------------
    def delete_below(self, partition: int, offset: int) -> None:
        """Delete the journal's records below ``offset``, for ever. Only ``Trim`` calls it, after its checks."""
        self.check()
        topic = self.settings.topic_name("journal")
        wanted, admin = [TopicPartition(topic, partition, offset)], self._pool.admin()

        def ask(timeout_s: float) -> None:
            next(iter(admin.delete_records(wanted, request_timeout=timeout_s).values())).result()

        with self._pool.translating_errors(topic=topic, partition=partition):
            self._fetcher.ask_leader(ask)

    def close(self) -> None:
        """Close the connections; a read under way ends with ``JournalUnavailable``. Idempotent."""
        self._pool.close()
