"""The writer of a capture: a target like a topic is. The records keep their own coordinates.

The file is written beside its name, and gets the name when it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.capture_file import META, CaptureFile, CaptureReading, kept
from seekpoint.consumers.staging.capture.capture_rows import RECORD_BYTES_MAX, SCHEMA
from seekpoint.consumers.staging.capture.files import NewFile, refuse_existing
from seekpoint.consumers.staging.copy.headers import Origin, without_ours
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.copy.senders import PromptSender
from seekpoint.consumers.staging.replay_ports import OffsetRange, OnDelivery, ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["CaptureTarget"]

_SYNC_RECORDS = 500


class CaptureTarget:
    """A capture, written. The records keep their own coordinates; provenance goes into the metadata.

    Raises ``ReplayRefused`` for a file that is there already: it may be the only copy of an incident. ``overwrite``
    replaces it, once the new one is whole. So does ``sender`` while another writes the file.
    """

    def __init__(self, path: str | Path, source: ReplayTopicFacts, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._overwrite = overwrite
        refuse_existing(self.path, overwrite=overwrite)
        self._source = source
        self.renumbers = False
        """Whether keys change: then records lie in other partitions, and get offsets anew there."""
        self._schemas: dict[bytes, bytes] = {}
        self._audit: dict[str, Any] = {}
        self._sender: CaptureSender | None = None

    def facts(self) -> ReplayTopicFacts:
        """It takes any number of partitions: those of the source."""
        return ReplayTopicFacts(
            cluster_id=f"file:{self.path.resolve()}",
            topic=self.path.name,
            topic_id="file",
            partitions=self._source.partitions,
        )

    def marks(self) -> dict[int, Watermarks]:
        """It begins empty, and anew each time."""
        return {partition: Watermarks(0, 0) for partition in range(self._source.partitions)}

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """There is none yet."""
        return None

    def schemas(self) -> dict[bytes, bytes]:
        """Those it was given."""
        return dict(self._schemas)

    def put_schemas(self, records: Mapping[bytes, bytes]) -> None:
        """Keep them for the metadata."""
        self._schemas.update(records)

    def audit(self, key: bytes, value: bytes) -> None:
        """Keep it for the metadata: what was known when the capture began."""
        if self._sender is None:
            self._audit = json.loads(value)

    def sender(self, *, linger_ms: float) -> CaptureSender:
        """The writer of the file."""
        self._sender = CaptureSender(self.path, self._meta(), renumbers=self.renumbers, overwrite=self._overwrite)
        return self._sender

    def read(self, stretches: Sequence[OffsetRange]) -> CaptureReading:
        """What was written, to be compared: the file as it will be read."""
        if self._sender is not None:
            self._sender.finish()
        capture = CaptureFile(self.path)
        whole = [OffsetRange(partition, 0, mark.high) for partition, mark in capture.marks().items()]
        return CaptureReading(_with_origins(capture, str(self._audit.get("job", ""))), whole)

    def close(self) -> None:
        """Drop what is not whole."""
        if self._sender is not None:
            self._sender.abandon()

    def _meta(self) -> dict[str, Any]:
        facts = {name: getattr(self._source, name) for name in ("cluster_id", "topic", "topic_id", "partitions")}
        schemas = {key.hex(): value.hex() for key, value in self._schemas.items()}
        return {**facts, "schemas": schemas, "audit": self._audit}


def _with_origins(capture: CaptureFile, job: str) -> Iterator[StoredMessage]:
    """The records of a capture with the headers that a comparison looks for."""
    facts = capture.facts()
    for row in capture.rows():
        each = kept(row)
        stamp = each.timestamp()[1]
        place = row["source_partition"], row["source_offset"]
        origin = Origin(job, f"{facts.cluster_id}/{facts.topic}", *place, stamp)
        headers = [*(each.headers() or ()), *origin.headers()]
        yield StoredMessage(each.partition(), each.offset(), each.key(), each.value(), stamp, headers)


class CaptureSender(PromptSender):
    """A ``Sender`` into a file, which gets its name when it is read back, and is dropped with its target else."""

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
        """One record, at the place it had. Raises ``ReplayRefused`` for one that could not be read back."""
        origin = Origin.of(headers)
        assert origin is not None  # a replay puts it on every record
        others = [{"name": name, "value": text} for name, text in without_ours(headers)]
        if len(value or b"") > RECORD_BYTES_MAX:
            raise ReplayRefused(
                "a record is larger than a capture takes", partition=origin.partition, offset=origin.offset,
                bytes=len(value or b""), limit=RECORD_BYTES_MAX,
            )  # fmt: skip
        place = {"source_partition": origin.partition, "source_offset": origin.offset, "timestamp_ms": timestamp}
        offset = origin.offset
        if self._next is not None:
            offset = self._next.get(partition, 0)
            self._next[partition] = offset + 1
        row = {**place, "partition": partition, "offset": offset, "key": key, "value": value, "headers": others}
        self._rows.append(row)
        self._deliveries.append(on_delivery)
        if len(self._rows) >= _SYNC_RECORDS:
            self._write_rows()

    def poll(self, timeout_s: float) -> None:
        """Tell of what was handed to the system."""
        self._write_rows()
        super().poll(timeout_s)

    def finish(self) -> None:
        """All is there: give it its name."""
        self._write_rows()
        self._file.finish()

    def abandon(self) -> None:
        """Remove what did not become whole."""
        self._file.abandon()

    def _write_rows(self) -> None:
        """A container of its own the first time; more blocks of it later."""
        import fastavro

        out = self._file.out
        if out.closed or (not self._rows and out.tell() > 0):
            return
        rows, self._rows = self._rows, []
        with self._file.writing():
            if out.tell() == 0:
                fastavro.writer(out, SCHEMA, rows, metadata=self._meta)
            else:
                fastavro.writer(out, SCHEMA, rows)  # appends blocks: the file is open for reading too
