"""Records in a file: an Avro object container that any Avro tool opens, with each record's coordinates.

A capture is a source and a target like a topic is. What it was captured from, and what was selected and masked, stands
in the container's metadata (``seekpoint.capture``). It is written beside its name and gets the name when it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from seekpoint.consumers.staging.headers import JOB, OFFSET, SOURCE, TIMESTAMP, Origin
from seekpoint.consumers.staging.memory_topic import Kept
from seekpoint.consumers.staging.ports import OnDelivery, Stretch, TopicFacts
from seekpoint.schemas.errors import JournalUnavailable, ReplayRefused, SeekpointError
from seekpoint.schemas.log import Watermarks

__all__ = ["CaptureFile", "CaptureTarget"]

_META = "seekpoint.capture"
_SYNC_RECORDS = 500
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Captured",
    "namespace": "seekpoint",
    "doc": "One record of a Kafka topic, and where it lay.",
    "fields": [
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "source_partition", "type": "int", "doc": "Differs from partition where keys were masked or renamed."},
        {"name": "source_offset", "type": "long"},
        {"name": "timestamp_ms", "type": "long"},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
                },
            },
        },
    ],
}


class CaptureFile:
    """A capture, read. Raises ``ReplayRefused`` if the file is none, or is cut off."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._meta = self._read_meta()
        self._index: dict[int, list[tuple[int, int]]] | None = None

    def facts(self) -> TopicFacts:
        """What it was captured from."""
        meta = self._meta
        return TopicFacts(
            cluster_id=str(meta["cluster_id"]),
            topic=str(meta["topic"]),
            topic_id=str(meta["topic_id"]),
            partitions=int(meta["partitions"]),
        )

    def marks(self) -> dict[int, Watermarks]:
        """First and next offset of what is in it; a partition that has nothing in it begins and ends at 0."""
        index = self._indexed()
        found = {}
        for partition in range(int(self._meta["partitions"])):
            places = index.get(partition)
            found[partition] = Watermarks(places[0][0], places[-1][0] + 1) if places else Watermarks(0, 0)
        return found

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older."""
        places = self._indexed().get(partition, [])
        return next((offset for offset, stamp in places if stamp >= timestamp_ms), None)

    def read(self, stretches: Sequence[Stretch]) -> CaptureReading:
        """Read it from its beginning to its end."""
        return CaptureReading(self._records(), stretches)

    def schemas(self) -> dict[bytes, bytes]:
        """The schemas topic that lay beside the journal."""
        return {bytes.fromhex(key): bytes.fromhex(value) for key, value in self._meta["schemas"].items()}

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was written when it was captured."""
        return self._meta

    def close(self) -> None:
        """Nothing stays open."""

    def _read_meta(self) -> dict[str, Any]:
        import fastavro  # 35 ms, for who has captures only

        try:
            with self.path.open("rb") as file:
                meta = fastavro.reader(file).metadata
            return dict(json.loads(meta[_META]))
        except OSError as exc:
            raise ReplayRefused(f"the capture cannot be read: {exc.strerror}", path=str(self.path)) from exc
        except Exception as exc:  # fastavro raises what it likes for bytes that are none
            raise ReplayRefused("the file is no capture", path=str(self.path)) from exc

    def _records(self) -> Iterator[Kept]:
        return map(_kept, self.rows())

    def rows(self) -> Iterator[Any]:
        """The records as they are written."""
        import fastavro

        with self.path.open("rb") as file:
            try:
                yield from fastavro.reader(file)
            except Exception as exc:  # as above
                raise ReplayRefused("the capture is damaged or cut off", path=str(self.path)) from exc

    def _indexed(self) -> dict[int, list[tuple[int, int]]]:
        if self._index is None:
            index: dict[int, list[tuple[int, int]]] = {}
            for each in self._records():
                index.setdefault(each.partition(), []).append((each.offset(), each.timestamp()[1]))
            self._index = index
        return self._index


def _kept(record: Any) -> Kept:
    headers = [(header["name"], header["value"]) for header in record["headers"]]
    place = record["partition"], record["offset"]
    return Kept(*place, record["key"], record["value"], record["timestamp_ms"], headers or None)


class CaptureReading:
    """A ``Reading`` of a file: its records as they come, those of a held partition kept back."""

    def __init__(self, records: Iterator[Kept], stretches: Sequence[Stretch]) -> None:
        self._records = records
        self._wanted = {each.partition: each for each in stretches}
        self._held: set[int] = set()
        self._back: list[Kept] = []
        self._ended = False

    def take(self, records_max: int, timeout_s: float) -> list[Kept]:
        """The next ones."""
        found = list(islice(self._records, records_max))
        self._ended = len(found) < records_max
        wanted = [each for each in found if self._is_wanted(each)]
        if not self._held and not self._back:
            return wanted
        both = self._back + wanted
        self._back = [each for each in both if each.partition() in self._held]
        return [each for each in both if each.partition() not in self._held]

    def unfinished(self) -> frozenset[int]:
        """All, until the file ends: it is not sorted by partition."""
        if not self._ended:
            return frozenset(self._wanted)
        return frozenset(each.partition() for each in self._back)

    def hold(self, partition: int) -> None:
        """Keep its records back."""
        self._held.add(partition)

    def release(self, partition: int) -> None:
        """Bring them."""
        self._held.discard(partition)

    def close(self) -> None:
        """Give the file up."""
        close = getattr(self._records, "close", None)
        if close is not None:
            close()

    def _is_wanted(self, record: Kept) -> bool:
        stretch = self._wanted.get(record.partition())
        return stretch is not None and stretch.start <= record.offset() < stretch.stop


class CaptureTarget:
    """A capture, written. The records keep their own coordinates; provenance goes into the metadata."""

    def __init__(self, path: str | Path, source: TopicFacts) -> None:
        self.path = Path(path)
        self._source = source
        self.renumbers = False
        """Whether keys change: then records lie in other partitions, and get offsets anew there."""
        self._schemas: dict[bytes, bytes] = {}
        self._audit: dict[str, Any] = {}
        self._sender: CaptureSender | None = None

    def facts(self) -> TopicFacts:
        """It takes any number of partitions: those of the source."""
        return TopicFacts(
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
        self._sender = CaptureSender(self.path, self._meta(), renumbers=self.renumbers)
        return self._sender

    def read(self, stretches: Sequence[Stretch]) -> CaptureReading:
        """What was written, to be compared: the file as it will be read."""
        if self._sender is not None:
            self._sender.finish()
        capture = CaptureFile(self.path)
        whole = [Stretch(partition, 0, mark.high) for partition, mark in capture.marks().items()]
        return CaptureReading(_with_origins(capture, str(self._audit.get("job", ""))), whole)

    def close(self) -> None:
        """Drop what is not whole."""
        if self._sender is not None:
            self._sender.abandon()

    def _meta(self) -> dict[str, Any]:
        facts = {name: getattr(self._source, name) for name in ("cluster_id", "topic", "topic_id", "partitions")}
        schemas = {key.hex(): value.hex() for key, value in self._schemas.items()}
        return {**facts, "schemas": schemas, "audit": self._audit}


def _with_origins(capture: CaptureFile, job: str) -> Iterator[Kept]:
    """The records of a capture with the headers that a comparison looks for."""
    facts = capture.facts()
    for row in capture.rows():
        each = _kept(row)
        source = f"{facts.cluster_id}/{facts.topic}/{row['source_partition']}"
        stamp = each.timestamp()[1]
        origin = [(JOB, job), (SOURCE, source), (OFFSET, str(row["source_offset"])), (TIMESTAMP, str(stamp))]
        headers = [*(each.headers() or ()), *((name, text.encode()) for name, text in origin)]
        yield Kept(each.partition(), each.offset(), each.key(), each.value(), stamp, headers)


class CaptureSender:
    """A ``Sender`` into a file."""

    def __init__(self, path: Path, meta: Mapping[str, Any], *, renumbers: bool) -> None:
        self._path = path
        self._next: dict[int, int] | None = {} if renumbers else None
        self._part = path.with_name(path.name + ".part")
        self._meta = {_META: json.dumps(meta)}
        self._rows: list[dict[str, Any]] = []
        self._told: list[OnDelivery] = []
        self._file: BinaryIO | None = self._open()
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
        """One record, at the place it had."""
        origin = Origin.of(headers)
        assert origin is not None  # a replay puts it on every record
        kept = [{"name": name, "value": text} for name, text in headers if not name.startswith("seekpoint-replay-")]
        place = {"source_partition": origin.partition, "source_offset": origin.offset, "timestamp_ms": timestamp}
        offset = origin.offset
        if self._next is not None:
            offset = self._next.get(partition, 0)
            self._next[partition] = offset + 1
        row = {**place, "partition": partition, "offset": offset, "key": key, "value": value, "headers": kept}
        self._rows.append(row)
        self._told.append(on_delivery)
        if len(self._rows) >= _SYNC_RECORDS:
            self._write_rows()

    def poll(self, timeout_s: float) -> None:
        """Tell of what was handed to the system."""
        if timeout_s > 0 and not self._told:
            import time

            time.sleep(timeout_s)
        self._write_rows()
        told, self._told = self._told, []
        for each in told:
            each(None, None)

    def refusal(self, error: Any) -> SeekpointError:
        """Nothing is ever refused here."""
        return JournalUnavailable(f"a record was refused: {error}")

    def flush(self, timeout_s: float) -> int:
        """Tell of all."""
        self.poll(0)
        return 0

    def finish(self) -> None:
        """All is there: give it its name."""
        if self._file is not None:
            self._write_rows()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            os.replace(self._part, self._path)

    def close(self) -> None:
        """Nothing: the file gets its name when it is read back, and is dropped with its target if it never is."""

    def abandon(self) -> None:
        """Remove what did not become whole."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._part.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        try:
            return self._part.open("w+b")
        except OSError as exc:
            raise ReplayRefused(f"the capture cannot be written: {exc.strerror}", path=str(self._path)) from exc

    def _write_rows(self) -> None:
        """A container of its own the first time; more blocks of it later."""
        import fastavro

        if self._file is None or (not self._rows and self._file.tell() > 0):
            return
        rows, self._rows = self._rows, []
        if self._file.tell() == 0:
            fastavro.writer(self._file, _SCHEMA, rows, metadata=self._meta)
        else:
            fastavro.writer(self._file, _SCHEMA, rows)  # appends blocks: the file is open for reading too
