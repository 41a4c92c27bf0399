"""The end of a replay: the target is read back, counted, compared; and the offset map is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from seekpoint.consumers.staging.files import beside, unwritable, writing
from seekpoint.consumers.staging.ports import Source, Stretch
from seekpoint.consumers.staging.tallies import Arrivals, Run
from seekpoint.consumers.staging.whole import whole
from seekpoint.schemas.errors import ReplayMismatch

__all__ = ["OffsetMap", "read_back"]

_MAP = "the offset map"
_SILENCE_MAX_S = 60.0


class OffsetMap:
    """A text file, a line a run: source partition, first offset, target partition, first offset, records.

    Within a run both offsets go up by one. ``None`` as path: no map.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: TextIO | None = None

    def add(self, run: Run) -> None:
        """One more run."""
        if self.path is not None:
            place = f"{run.partition}\t{run.offset}\t{run.target_partition}\t{run.target_offset}"
            self._write(self.path, f"{place}\t{run.count}\n")

    def finish(self) -> None:
        """The map is whole."""
        if self.path is None:
            return
        self._write(self.path, "")
        with writing(_MAP, self.path):
            if self._file is not None:
                self._file.close()
            os.replace(beside(self.path), self.path)
        self._file = None

    def _write(self, path: Path, text: str) -> None:
        try:
            if self._file is None:
                self._file = beside(path).open("w")
                self._file.write("source_partition\tsource_offset\ttarget_partition\ttarget_offset\trecords\n")
            self._file.write(text)
        except OSError as exc:
            raise unwritable(_MAP, path, exc) from exc


def read_back(target: Source, start: Mapping[int, int], job: str, offset_map: OffsetMap) -> Arrivals:
    """What ``job`` left in the target from ``start`` on."""
    arrivals = Arrivals(job, offset_map.add)
    ends = {partition: mark.high for partition, mark in target.marks().items()}
    stretches = [Stretch(p, start.get(p, 0), end) for p, end in sorted(ends.items()) if start.get(p, 0) < end]
    silent = ReplayMismatch("the target cannot be read back: it brought nothing for a minute")
    for messages in whole(target.read(stretches), _SILENCE_MAX_S, silent):
        for message in messages:
            arrivals.add(message)
    arrivals.finish()
    offset_map.finish()
    return arrivals
