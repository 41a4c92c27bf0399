"""The writer of a capture, as the target of a replay. The records keep their coordinates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.capture_file import META, CaptureFile, CaptureRangeReader, message_of
from seekpoint.consumers.staging.capture.capture_rows import RECORD_BYTES_MAX, SCHEMA
from seekpoint.consumers.staging.capture.new_file import NewFile, refuse_existing
from seekpoint.consumers.staging.copy.headers import ReplayOrigin, without_replay_headers
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.copy.senders import ImmediateSender
from seekpoint.consumers.staging.replay_ports import OffsetRange, OnDelivery, ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks

_SYNC_RECORDS = 500


class CaptureTarget:
    """A ``ReplayTarget``. The records keep their coordinates; the metadata names their origin.

    Raises ``ReplayRefused`` for an existing file, because it may be the only copy of an incident. ``overwrite``
    replaces it, once the new one is complete. ``sender`` raises it too while another process writes the file.
    """

    def __init__(self, path: str | Path, source: ReplayTopicFacts, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._overwrite = overwrite
        refuse_existing(self.path, overwrite=overwrite)
        self._source = source
        self.renumbers = False
        """Whether records change their partitions, and so get new offsets."""
        self._schemas: dict[bytes, bytes] = {}
        self._audit: dict[str, Any] = {}
        self._sender: CaptureSender | None = None

    def facts(self) -> ReplayTopicFacts:
        """Return the facts of the file, which has as many partitions as the source."""
        return ReplayTopicFacts(
            cluster_id=f"file:{self.path.resolve()}",
            topic=self.path.name,
            topic_id="file",
            partitions=self._source.partitions,
        )

    def watermarks(self) -> dict[int, Watermarks]:
        """Return 0 and 0 for each partition, because the file is always written from its start."""
        return {partition: Watermarks(0, 0) for partition in range(self._source.partitions)}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return None."""
        return None

    def schemas(self) -> dict[bytes, bytes]:
        """Return the schemas for the metadata."""
        return dict(self._schemas)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Add schemas for the metadata."""
        self._schemas.update(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Keep the first entry for the metadata; the file has no place for later ones."""
        if self._sender is None:
            self._audit = json.loads(value)

    def sender(self, *, linger_ms: float) -> CaptureSender:
        """Return the writer of the file."""
        self._sender = CaptureSender(self.path, self._meta(), renumbers=self.renumbers, overwrite=self._overwrite)
        return self._sender

    def read(self, ranges: Sequence[OffsetRange]) -> CaptureRangeReader:
        """Complete the file, and read all of it for the comparison."""
        if self._sender is not None:
            self._sender.finish()
        capture = CaptureFile(self.path)
        everything = [OffsetRange(partition, 0, mark.high) for partition, mark in capture.watermarks().items()]
        return CaptureRangeReader(_with_origins(capture, str(self._audit.get("job", ""))), everything)

    def close(self) -> None:
        """Remove an incomplete file."""
        if self._sender is not None:
            self._sender.abandon()

    def _meta(self) -> dict[str, Any]:
        facts = {name: getattr(self._source, name) for name in ("cluster_id", "topic", "topic_id", "partitions")}
        schemas = {key.hex(): value.hex() for key, value in self._schemas.items()}
        return {**facts, "schemas": schemas, "audit": self._audit}


def _with_origins(capture: CaptureFile, job: str) -> Iterator[StoredMessage]:
    """Yield the records with the origin headers that the comparison needs."""
    facts = capture.facts()
    for row in capture.rows():
        each = message_of(row)
        stamp = each.timestamp()[1]
        position = row["source_partition"], row["source_offset"]
        origin = ReplayOrigin(job, f"{facts.cluster_id}/{facts.topic}", *position, stamp)
        headers = [*(each.headers() or ()), *origin.headers()]
        yield StoredMessage(each.partition(), each.offset(), each.key(), each.value(), stamp, headers)


class CaptureSender(ImmediateSender):
    """A ``Sender`` to a file, which gets its name in ``finish``, or is removed in ``abandon``."""

    def __init__(self, path: Path, meta: Mapping[str, Any], *, renumbers: bool, overwrite: bool) -> None:
        super().__init__()
        self._next: dict[int, int] | None = {} if renumbers else None
        self._meta = {META: json.dumps(meta)}
        self._rows: list[dict[str, Any]] = []
        self._file = NewFile("the capture", path, overwrite=overwrite)
        self._write_rows()

    def produce(
        self,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: OnDelivery,
        timestamp: int,
        headers: Any,
    ) -> None:
        """Write one record with its coordinates. Raises ``ReplayRefused`` if it is too large to be read back."""
        origin = ReplayOrigin.from_headers(headers)
        assert origin is not None  # a replay adds it to every record
        headers_left = [{"name": name, "value": text} for name, text in without_replay_headers(headers)]
        if len(value or b"") > RECORD_BYTES_MAX:
            raise ReplayRefused(
                "a record is too large for a capture", partition=origin.partition, offset=origin.offset,
                bytes=len(value or b""), limit=RECORD_BYTES_MAX,
            )  # fmt: skip
        position = {"source_partition": origin.partition, "source_offset": origin.offset, "timestamp_ms": timestamp}
        offset = origin.offset
        if self._next is not None:
            offset = self._next.get(partition, 0)
            self._next[partition] = offset + 1
        row = {
            **position,
            "partition": partition,
            "offset": offset,
            "key": key,
            "value": value,
            "headers": headers_left,
        }
        self._rows.append(row)
        self._deliveries.append(on_delivery)
        if len(self._rows) >= _SYNC_RECORDS:
            self._write_rows()

    def poll(self, timeout_s: float) -> None:
        """Write the rows, then call ``on_delivery`` of their records."""
        self._write_rows()
        super().poll(timeout_s)

    def finish(self) -> None:
        """Complete the file and give it its name."""
        self._write_rows()
        self._file.finish()

    def abandon(self) -> None:
        """Remove an incomplete file."""
        self._file.abandon()

    def _write_rows(self) -> None:
        """Write a container the first time, then append blocks to it."""
        import fastavro

        out = self._file.out
        if out.closed or (not self._rows and out.tell() > 0):
            return
        rows, self._rows = self._rows, []
        with self._file.writing():
            if out.tell() == 0:
                fastavro.writer(out, SCHEMA, rows, metadata=self._meta)
            else:
                fastavro.writer(out, SCHEMA, rows)  # appends, because the file is open for reading too
