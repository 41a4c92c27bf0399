"""The end of a replay: the target is read back, counted, compared; and the offset map is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seekpoint.consumers.staging.capture.files import NewFile, refuse_existing, unwritable
from seekpoint.consumers.staging.copy.tallies import Arrivals, Run
from seekpoint.consumers.staging.copy.whole import whole
from seekpoint.consumers.staging.replay_ports import OffsetRange, ReplaySource
from seekpoint.schemas.errors import ReplayMismatch

__all__ = ["OffsetMap", "read_back"]

_MAP = "the offset map"
_SILENCE_MAX_S = 60.0


class OffsetMap:
    """A text file, a line a run: source partition, first offset, target partition, first offset, records.

    Within a run both offsets go up by one. ``None`` as path: no map. Raises ``ReplayRefused`` for a file that is there
    already, unless ``overwrite`` replaces it, once the new one is whole.
    """

    def __init__(self, path: Path | None, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite
        self._file: NewFile | None = None
        if path is not None:
            refuse_existing(path, overwrite=overwrite)

    def begin(self) -> None:
        """Take the file. Raises ``ReplayRefused`` if another has it, or if it cannot be written."""
        if self.path is not None:
            self._file = NewFile(_MAP, self.path, overwrite=self._overwrite)
            self._write("source_partition\tsource_offset\ttarget_partition\ttarget_offset\trecords\n")

    def add(self, run: Run) -> None:
        """One more run."""
        if self._file is not None:
            place = f"{run.partition}\t{run.offset}\t{run.target_partition}\t{run.target_offset}"
            self._write(f"{place}\t{run.count}\n")

    def finish(self) -> None:
        """The map is whole."""
        if self._file is not None:
            self._file.finish()

    def close(self) -> None:
        """Drop what is not whole."""
        if self._file is not None:
            self._file.abandon()

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.out.write(text.encode())
        except OSError as exc:
            raise unwritable(_MAP, self._file.path, exc) from exc


def read_back(target: ReplaySource, start: Mapping[int, int], job: str, offset_map: OffsetMap) -> Arrivals:
    """What ``job`` left in the target from ``start`` on; ``offset_map`` is told where each record is."""
    arrivals = Arrivals(job, offset_map.add)
    ends = {partition: mark.high for partition, mark in target.marks().items()}
    stretches = [OffsetRange(p, start.get(p, 0), end) for p, end in sorted(ends.items()) if start.get(p, 0) < end]
    silent = ReplayMismatch("the target cannot be read back: it brought nothing for a minute")
    for messages in whole(target.read(stretches), _SILENCE_MAX_S, silent):
        for message in messages:
            arrivals.add(message)
    arrivals.finish()
    return arrivals
