"""The history of one process in a file: a capture with the records of that process alone.

The file describes itself: it holds the raw records, their coordinates and the writer schemas of their entries. Any
capture with one process can be read.
"""

from __future__ import annotations

from pathlib import Path

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.replay_ports import ReplayTopicFacts
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import JournalGap, ReplayRefused, UnknownProcess
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.partition import partition_of


class ProcessFile:
    """The history of one process, read from a file. Raises ``ReplayRefused`` if the file holds none, or several."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        found = histories_in(path)
        if len(found) != 1:
            raise ReplayRefused(
                "the file holds no process" if not found else "the file holds more than one process",
                path=str(path), processes=len(found), hint="make it with seekpoint export PROCESS_ID FILE",
            )  # fmt: skip
        [(self.process_id, self.entries)] = found.items()
        """The entries are in log order, with the offsets they had."""

    @classmethod
    def write(cls, log: LogReader, process_id: str, path: str | Path, *, overwrite: bool = False) -> int:
        """Write the history of a process up to now; return how many records it has. Blocks.

        The file appears once it is complete. Raises ``UnknownProcess``, ``JournalGap`` if the beginning of the history
        may have been trimmed, and ``ReplayRefused`` if the file cannot be written or exists without ``overwrite``.
        """
        key = process_key(process_id)
        partition = partition_of(key, log.partitions)
        low, high = log.watermarks(partition)
        facts = ReplayTopicFacts(
            cluster_id="", topic=f"{log.name}.journal", topic_id=log.topic_id, partitions=log.partitions
        )
        target = CaptureTarget(path, facts, overwrite=overwrite)
        target.put_schemas(log.table("schemas").items())
        sender = target.sender(linger_ms=0)
        try:
            count = 0
            for batch in log.read(partition, low, high, {key}):
                for record in batch.records:
                    _check_first(log, record, count, low)
                    position = record.partition, record.offset, record.timestamp_ms
                    headers = ReplayOrigin("export", f"/{facts.topic}", *position).headers()
                    sender.produce(record.value, record.key, partition, _ignore, record.timestamp_ms, headers)
                    count += 1
            _check_any(log, process_id, partition, count, low)
            sender.finish()
        finally:
            target.close()
        return count


def histories_in(path: str | Path) -> dict[str, list[Logged]]:
    """Return the entries of each process in a capture, by id. Raises ``ReplayRefused`` if the file is no capture."""
    capture, found = CaptureFile(path), dict[str, list[Logged]]()
    names = ("partition", "offset", "timestamp_ms", "key", "value")
    records = (Record(*(row[name] for name in names)) for row in capture.rows())
    for record, entry in entries_of(records, capture):
        found.setdefault(entry.process_id, []).append(Logged(record.offset, record.timestamp_ms, entry))
    return found


def _ignore(error: object, message: object) -> None:
    """Ignore the delivery report: a file raises its errors at once."""


def _check_first(log: LogReader, record: Record, count: int, low: int) -> None:
    """Raise ``JournalGap`` if a trimmed history does not begin with a claim of epoch 0 or an entry without an owner."""
    if count or not low:
        return
    for _, entry in entries_of([record], log):
        if entry.seq is not None or (isinstance(entry.body, b.Claim) and entry.body.expected_epoch > 0):
            raise JournalGap(
                "the beginning of the history is gone", process_id=entry.process_id, low=low,
                hint="replay its checkpointed content: seekpoint replay --seeded --process PROCESS_ID",
            )  # fmt: skip


def _check_any(log: LogReader, process_id: str, partition: int, count: int, low: int) -> None:
    if count:
        return
    if low:
        raise JournalGap("the log has no entry of it, or no more: it was trimmed", process_id=process_id, low=low)
    raise UnknownProcess("no such process", journal=log.name, process_id=process_id, partition=partition)
