"""A capture: an Avro object container with records and their coordinates, as the source of a replay.

Any Avro tool opens it. ``capture_target`` writes it. The container's metadata names the captured topic and the plan.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.capture_rows import read_header, read_rows
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.copy.source_codec import codec_of
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.wire.codec import Codec

META = "seekpoint.capture"
"""The key of the capture's metadata in the container."""
_PARTITIONS_MAX = 100_000
_NO_RECORDS: tuple[array[int], array[int]] = array("q"), array("q")


class CaptureFile:
    """A ``ReplaySource``. Raises ``ReplayRefused`` if the file is not a complete capture."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._meta = self._read_meta()
        self._index: dict[int, tuple[array[int], array[int]]] | None = None
        """By partition: the offsets and the timestamps, 16 bytes per record."""

    def facts(self) -> ReplayTopicFacts:
        """Return the facts of the captured topic."""
        meta = self._meta
        return ReplayTopicFacts(
            cluster_id=meta["cluster_id"], topic=meta["topic"], topic_id=meta["topic_id"], partitions=meta["partitions"]
        )

    def watermarks(self) -> dict[int, Watermarks]:
        """Return the first and next offset of each partition; 0 and 0 for a partition without records."""
        index = self._indexed()
        found = {}
        for partition in range(self._meta["partitions"]):
            offsets, _ = index.get(partition, _NO_RECORDS)
            found[partition] = Watermarks(offsets[0], offsets[-1] + 1) if offsets else Watermarks(0, 0)
        return found

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset whose record is not older; None if there is none."""
        records = zip(*self._indexed().get(partition, _NO_RECORDS), strict=True)
        return next((offset for offset, stamp in records if stamp >= timestamp_ms), None)

    def read(self, ranges: Sequence[OffsetRange]) -> CaptureRangeReader:
        """Read these ranges, in the order of the file."""
        return CaptureRangeReader(map(message_of, self.rows()), ranges)

    def schemas(self) -> dict[bytes, bytes]:
        """Return the records of the journal's schemas topic."""
        found: dict[bytes, bytes] = self._meta["schemas"]
        return dict(found)

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        found: int = self._meta["partitions"]
        return found

    @cached_property
    def codec(self) -> Codec:
        """Return a decoder of the entries."""
        return codec_of(self.schemas())

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _read_meta(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                meta = read_header(file).meta
            return _checked(json.loads(meta[META]))
        except ReplayRefused as exc:
            exc.path = str(self.path)
            raise
        except OSError as exc:
            raise ReplayRefused(f"the capture cannot be read: {exc.strerror}", path=str(self.path)) from exc
        except Exception as exc:  # bytes of another kind raise any error
            raise ReplayRefused("the file is not a capture", path=str(self.path)) from exc

    def rows(self) -> Iterator[Any]:
        """Yield the rows of the file."""
        with self.path.open("rb") as file:
            try:
                yield from read_rows(file)
            except Exception as exc:  # as above
                raise ReplayRefused("the capture is damaged or cut off", path=str(self.path)) from exc

    def _indexed(self) -> dict[int, tuple[array[int], array[int]]]:
        if self._index is None:
            index: dict[int, tuple[array[int], array[int]]] = {}
            for row in self.rows():
                offsets, stamps = index.setdefault(row["partition"], (array("q"), array("q")))
                offsets.append(row["offset"])
                stamps.append(row["timestamp_ms"])
            self._index = index
        return self._index


def _checked(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata with its schemas as bytes. Raises any error for metadata of another form."""
    partitions = int(meta["partitions"])
    if not 1 <= partitions <= _PARTITIONS_MAX:
        raise ValueError("more partitions than a topic can have")
    schemas = {bytes.fromhex(key): bytes.fromhex(value) for key, value in meta["schemas"].items()}
    texts = {name: str(meta[name]) for name in ("cluster_id", "topic", "topic_id")}
    return {**meta, **texts, "partitions": partitions, "schemas": schemas}


def message_of(row: Any) -> StoredMessage:
    """Return a row of the file as a message."""
    headers = [(header["name"], header["value"]) for header in row["headers"]]
    position = row["partition"], row["offset"]
    return StoredMessage(*position, row["key"], row["value"], row["timestamp_ms"], headers or None)


class CaptureRangeReader:
    """A ``RangeReader`` of a file. It buffers the records of paused partitions that it reads past."""

    def __init__(self, records: Iterator[StoredMessage], ranges: Sequence[OffsetRange]) -> None:
        self._records = records
        self._wanted = {each.partition: each for each in ranges}
        self._paused: set[int] = set()
        self._buffered: list[StoredMessage] = []
        self._ended = False

    def take(self, records_max: int, timeout_s: float) -> list[StoredMessage]:
        """Return the next records; none while all partitions are paused, so that it never buffers the whole file."""
        if self._wanted.keys() <= self._paused:
            return []
        found = list(islice(self._records, records_max))
        self._ended = len(found) < records_max
        wanted = [each for each in found if self._is_wanted(each)]
        if not self._paused and not self._buffered:
            return wanted
        both = self._buffered + wanted
        self._buffered = [each for each in both if each.partition() in self._paused]
        return [each for each in both if each.partition() not in self._paused]

    def unfinished(self) -> frozenset[int]:
        """Return all partitions until the file ends, because it is not sorted by partition."""
        if not self._ended:
            return frozenset(self._wanted)
        return frozenset(each.partition() for each in self._buffered)

    def pause(self, partition: int) -> None:
        """Pause a partition."""
        self._paused.add(partition)

    def resume(self, partition: int) -> None:
        """Resume a partition."""
        self._paused.discard(partition)

    def close(self) -> None:
        """Close the file."""
        close = getattr(self._records, "close", None)
        if close is not None:
            close()

    def _is_wanted(self, record: StoredMessage) -> bool:
        offset_range = self._wanted.get(record.partition())
        return offset_range is not None and offset_range.start <= record.offset() < offset_range.stop
