"""Records in a file: an Avro object container that any Avro tool opens, with each record's coordinates.

A capture is a source like a topic is; ``capture_target`` writes it. What it was captured from, and what was selected
and masked, stands in the container's metadata.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from seekpoint.consumers.staging.capture.capture_rows import read_header, read_rows
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.log.log_ports import Watermarks

__all__ = ["META", "CaptureFile", "CaptureReading", "kept"]

META = "seekpoint.capture"
"""The metadata's name."""
_PARTITIONS_MAX = 100_000
_NONE: tuple[array[int], array[int]] = array("q"), array("q")


class CaptureFile:
    """A capture, read. Raises ``ReplayRefused`` if the file is none, or is cut off."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._meta = self._read_meta()
        self._index: dict[int, tuple[array[int], array[int]]] | None = None
        """By partition: the offsets and the time stamps, 16 bytes a record."""

    def facts(self) -> ReplayTopicFacts:
        """What it was captured from."""
        meta = self._meta
        return ReplayTopicFacts(
            cluster_id=meta["cluster_id"], topic=meta["topic"], topic_id=meta["topic_id"], partitions=meta["partitions"]
        )

    def marks(self) -> dict[int, Watermarks]:
        """First and next offset of what is in it; a partition that has nothing in it begins and ends at 0."""
        index = self._indexed()
        found = {}
        for partition in range(self._meta["partitions"]):
            offsets, _ = index.get(partition, _NONE)
            found[partition] = Watermarks(offsets[0], offsets[-1] + 1) if offsets else Watermarks(0, 0)
        return found

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """The first offset whose record is not older."""
        places = zip(*self._indexed().get(partition, _NONE), strict=True)
        return next((offset for offset, stamp in places if stamp >= timestamp_ms), None)

    def read(self, stretches: Sequence[OffsetRange]) -> CaptureReading:
        """Read it from its beginning to its end."""
        return CaptureReading(self._records(), stretches)

    def schemas(self) -> dict[bytes, bytes]:
        """The schemas topic that lay beside the journal."""
        found: dict[bytes, bytes] = self._meta["schemas"]
        return dict(found)

    @property
    def meta(self) -> Mapping[str, Any]:
        """What was written when it was captured."""
        return self._meta

    def close(self) -> None:
        """Nothing stays open."""

    def _read_meta(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                meta = read_header(file).meta
            return _checked(json.loads(meta[META]))
        except ReplayRefused as exc:
            exc.facts["path"] = str(self.path)
            raise
        except OSError as exc:
            raise ReplayRefused(f"the capture cannot be read: {exc.strerror}", path=str(self.path)) from exc
        except Exception as exc:  # whatever bytes that are none lead to
            raise ReplayRefused("the file is no capture", path=str(self.path)) from exc

    def _records(self) -> Iterator[StoredMessage]:
        return map(kept, self.rows())

    def rows(self) -> Iterator[Any]:
        """The records as they are written."""
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
    """The metadata with its schemas as bytes. Raises whatever metadata of another form leads to."""
    partitions = int(meta["partitions"])
    if not 1 <= partitions <= _PARTITIONS_MAX:
        raise ValueError("more partitions than a topic has")
    schemas = {bytes.fromhex(key): bytes.fromhex(value) for key, value in meta["schemas"].items()}
    texts = {name: str(meta[name]) for name in ("cluster_id", "topic", "topic_id")}
    return {**meta, **texts, "partitions": partitions, "schemas": schemas}


def kept(record: Any) -> StoredMessage:
    """A row of the file as the record it was."""
    headers = [(header["name"], header["value"]) for header in record["headers"]]
    place = record["partition"], record["offset"]
    return StoredMessage(*place, record["key"], record["value"], record["timestamp_ms"], headers or None)


class CaptureReading:
    """A ``Reading`` of a file: its records as they come, those of a held partition kept back."""

    def __init__(self, records: Iterator[StoredMessage], stretches: Sequence[OffsetRange]) -> None:
        self._records = records
        self._wanted = {each.partition: each for each in stretches}
        self._held: set[int] = set()
        self._back: list[StoredMessage] = []
        self._ended = False

    def take(self, records_max: int, timeout_s: float) -> list[StoredMessage]:
        """The next ones; none while all are held, so that a slow replay does not keep the whole file."""
        if self._wanted.keys() <= self._held:
            return []
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

    def _is_wanted(self, record: StoredMessage) -> bool:
        stretch = self._wanted.get(record.partition())
        return stretch is not None and stretch.start <= record.offset() < stretch.stop
