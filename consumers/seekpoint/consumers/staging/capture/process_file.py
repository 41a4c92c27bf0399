"""One process in one file: a capture with the entries of that process alone, as they lie in the journal.

The file describes itself: an Avro object container with the raw records and their coordinates, and the writer schemas
of their entries. Any capture is read, if it holds one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.headers import Origin
from seekpoint.consumers.staging.copy.source_codec import codec_of
from seekpoint.consumers.staging.replay_ports import ReplayTopicFacts
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap, ReplayRefused, UndecodableRecord, UnknownProcess
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.partition import partition_of

__all__ = ["ProcessFile"]


class ProcessFile:
    """The history of one process, from a file. Raises ``ReplayRefused`` if the file holds none, or several."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._capture = CaptureFile(path)
        self.entries = list(self._read())
        """In log order, with the places they had."""
        ids = {one.entry.process_id for one in self.entries}
        if len(ids) != 1:
            raise ReplayRefused(
                "the file holds no process" if not ids else "the file holds more than one process",
                path=str(path), processes=len(ids), hint="make it with seekpoint export ID FILE",
            )  # fmt: skip
        (self.process_id,) = ids

    @classmethod
    def write(cls, log: LogReader, process_id: str, path: str | Path, *, overwrite: bool = False) -> int:
        """Put a process into a file, as of now; how many records. The file appears when it is whole. Blocks.

        Raises ``UnknownProcess``, ``JournalGap`` if a part of the log was trimmed (its beginning could be missing),
        ``ReplayRefused`` if the file cannot be written, or is there already (unless ``overwrite``).
        """
        key = process_key(process_id)
        partition = partition_of(key, log.partitions)
        marks = log.watermarks(partition)
        target = CaptureTarget(path, _facts(log), overwrite=overwrite)
        target.put_schemas(log.table("schemas").items())
        sender = target.sender(linger_ms=0)
        try:
            count = 0
            for batch in log.read(partition, marks.low, marks.high, {key}):
                for record in batch.records:
                    _check_first(log, record, count, marks.low)
                    sender.produce(
                        record.value, record.key, partition, _delivered, record.timestamp_ms, _origin(log, record)
                    )
                    count += 1
            _check_any(log, process_id, partition, count, marks.low)
            sender.finish()
        finally:
            target.close()
        return count

    def _read(self) -> Iterator[Logged]:
        codec = codec_of(self._capture.schemas())
        for row in self._capture.rows():
            try:
                yield Logged(row["offset"], row["timestamp_ms"], codec.decode(row["value"]))
            except UndecodableRecord:  # poison in the journal, that no reader of it counts either
                continue


def _facts(log: LogReader) -> ReplayTopicFacts:
    return ReplayTopicFacts(
        cluster_id="", topic=f"{log.name}.journal", topic_id=log.topic_id, partitions=log.partitions
    )


def _delivered(error: object, message: object) -> None:
    """A file answers by itself."""


def _origin(log: LogReader, record: Record) -> list[tuple[str, bytes]]:
    """Where the record lay, as a capture takes it."""
    return Origin("export", f"/{log.name}.journal", record.partition, record.offset, record.timestamp_ms).headers()


def _check_first(log: LogReader, record: Record, count: int, low: int) -> None:
    """A history is whole, or it is no history: what an owner wrote first is a claim of epoch 0, or nobody owned it."""
    if count or not low:
        return
    try:
        entry = log.codec.decode(record.value)
    except UndecodableRecord:
        return
    if getattr(entry.body, "expected_epoch", 0) > 0 or entry.seq is not None:
        raise JournalGap(
            "the beginning of the history is gone", process_id=entry.process_id, low=low,
            hint="replay its checkpointed content: seekpoint replay --seeded --process ID",
        )  # fmt: skip


def _check_any(log: LogReader, process_id: str, partition: int, count: int, low: int) -> None:
    if count:
        return
    if low:
        raise JournalGap("its history is gone from the log, or there was none", process_id=process_id, low=low)
    raise UnknownProcess("no such process", journal=log.name, process_id=process_id, partition=partition)
