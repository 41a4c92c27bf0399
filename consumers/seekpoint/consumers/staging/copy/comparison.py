"""The end of a replay: read the target back for the comparison, and write the offset map."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seekpoint.consumers.staging.capture.new_file import NewFile, refuse_existing, write_error
from seekpoint.consumers.staging.copy.full_read import end_offsets, read_between
from seekpoint.consumers.staging.copy.tallies import Arrivals, MappedRange
from seekpoint.consumers.staging.replay_ports import ReplaySource
from seekpoint.schemas.errors import ReplayMismatch

_MAP = "the offset map"
_SILENCE_MAX_S = 60.0


class OffsetMap:
    """A text file with one line per ``MappedRange``.

    Each line has the source partition, its first offset, the target partition, its first offset and the number of
    records. Both offsets rise by one within a range. Without a ``path`` nothing is written. Raises ``ReplayRefused``
    for an existing file, unless ``overwrite`` replaces it once the new one is complete.
    """

    def __init__(self, path: Path | None, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite
        self._file: NewFile | None = None
        if path is not None:
            refuse_existing(path, overwrite=overwrite)

    def begin(self) -> None:
        """Open the file. Raises ``ReplayRefused`` if it cannot be written, or if another process writes it."""
        if self.path is not None:
            self._file = NewFile(_MAP, self.path, overwrite=self._overwrite)
            self._write("source_partition\tsource_offset\ttarget_partition\ttarget_offset\trecords\n")

    def add(self, mapped: MappedRange) -> None:
        """Write one line."""
        if self._file is not None:
            source, target = (mapped.partition, mapped.offset), (mapped.target_partition, mapped.target_offset)
            self._write("\t".join(map(str, (*source, *target, mapped.count))) + "\n")

    def finish(self) -> None:
        """Give the complete file its name."""
        if self._file is not None:
            self._file.finish()

    def close(self) -> None:
        """Remove an incomplete file."""
        if self._file is not None:
            self._file.abandon()

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.out.write(text.encode())
        except OSError as exc:
            raise write_error(_MAP, self._file.path, exc) from exc


def read_back(target: ReplaySource, start: Mapping[int, int], job: str, offset_map: OffsetMap) -> Arrivals:
    """Count the records of ``job`` in the target from ``start`` on, and write their offsets to ``offset_map``."""
    arrivals = Arrivals(job, offset_map.add)
    timeout = ReplayMismatch("the target cannot be read back: no record came for a minute")
    for messages in read_between(target, start, end_offsets(target), _SILENCE_MAX_S, timeout):
        for message in messages:
            arrivals.add(message)
    arrivals.finish()
    return arrivals
