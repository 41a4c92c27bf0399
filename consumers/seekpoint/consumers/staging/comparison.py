"""The end of a replay: the target is read back, counted, compared; and the offset map is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from seekpoint.consumers.staging.ports import Reading, Source, Stretch
from seekpoint.consumers.staging.tallies import Arrivals, Run
from seekpoint.schemas.errors import ReplayMismatch, ReplayRefused

__all__ = ["OffsetMap", "read_back"]

_BATCH_RECORDS = 2_000
_SILENT_TAKES_MAX = 600


class OffsetMap:
    """A text file, a line a run: source partition, first offset, target partition, first offset, records.

    Within a run both offsets go up by one. ``None`` as path: no map.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.runs = 0
        self._part = None if path is None else path.with_name(path.name + ".part")
        self._file: TextIO | None = None

    def add(self, run: Run) -> None:
        """One more run."""
        self.runs += 1
        if self._part is not None:
            if self._file is None:
                self._file = self._open(self._part)
            place = f"{run.partition}\t{run.offset}\t{run.target_partition}\t{run.target_offset}"
            self._file.write(f"{place}\t{run.count}\n")

    def finish(self) -> None:
        """The map is whole."""
        if self.path is None or self._part is None:
            return
        if self._file is None:
            self._file = self._open(self._part)
        self._file.close()
        self._file = None
        os.replace(self._part, self.path)

    def _open(self, path: Path) -> TextIO:
        try:
            file = path.open("w")
        except OSError as exc:
            raise ReplayRefused(f"the offset map cannot be written: {exc.strerror}", path=str(self.path)) from exc
        file.write("source_partition\tsource_offset\ttarget_partition\ttarget_offset\trecords\n")
        return file


def read_back(target: Source, start: Mapping[int, int], job: str, offset_map: OffsetMap) -> Arrivals:
    """What ``job`` left in the target from ``start`` on."""
    arrivals = Arrivals(job, offset_map.add)
    ends = {partition: mark.high for partition, mark in target.marks().items()}
    stretches = [Stretch(p, start.get(p, 0), end) for p, end in sorted(ends.items()) if start.get(p, 0) < end]
    reading = target.read(stretches)
    try:
        _read_all(reading, arrivals)
    finally:
        reading.close()
    arrivals.finish()
    offset_map.finish()
    return arrivals


def _read_all(reading: Reading, arrivals: Arrivals) -> None:
    silent = 0
    while True:
        messages = reading.take(_BATCH_RECORDS, 0.1)
        for message in messages:
            arrivals.add(message)
        if not reading.unfinished():
            return
        silent = 0 if messages else silent + 1
        if silent > _SILENT_TAKES_MAX:
            raise ReplayMismatch("the target cannot be read back: it brought nothing for a minute")
