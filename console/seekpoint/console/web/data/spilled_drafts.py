"""Drafts of states of which only some are in memory: those used last. The others are in a temporary file.

The file has no name, so nobody else opens it, and it is gone with the program. It is only read back by this program.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import IO

from seekpoint.schemas.state.process_state import Draft, State, drop_content

__all__ = ["SpilledDrafts"]

_DRAFT_BYTES = 4_096
"""About what a draft takes without content."""
_UNUSED_BYTES_MAX = 33_554_432
"""So much of the file may be unused before it is written anew."""


class SpilledDrafts:
    """The drafts of the processes of a partition. For one thread at a time."""

    def __init__(self, bytes_max: int) -> None:
        self.drafts: dict[bytes, Draft] = {}
        """Those in memory, which a scan reads and writes: after ``bring`` all that it needs."""
        self._bytes_max = bytes_max
        self._places: dict[bytes, tuple[int, int]] = {}
        """Of those in the file: where, and how long."""
        self._file: IO[bytes] | None = None
        self._live_bytes = 0
        self._end = 0

    def __len__(self) -> int:
        return len(self.drafts) + len(self._places)

    def bring(self, keys: Iterable[bytes]) -> None:
        """Have the drafts of ``keys`` in memory, as far as there are any, as those that were used last."""
        for key in keys:
            draft = self.drafts.pop(key, None) or self._taken(key)
            if draft is not None:
                self.drafts[key] = draft

    def spare(self) -> dict[bytes, State]:
        """Put those that were not used for longest into the file, until the rest fits. Return their states."""
        sizes = {key: _DRAFT_BYTES + draft.content_bytes for key, draft in self.drafts.items()}
        over, spared = sum(sizes.values()) - self._bytes_max, dict[bytes, State]()
        for key, size in sizes.items():
            if over <= 0 or len(self.drafts) == 1:
                break
            state = spared[key] = self.drafts.pop(key).freeze()
            self._put(key, slim(state.thaw()).freeze().to_bytes())
            over -= size
        if self._end - self._live_bytes > self._live_bytes + _UNUSED_BYTES_MAX:
            self._write_anew()
        return spared

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _taken(self, key: bytes) -> Draft | None:
        place = self._places.pop(key, None)
        if place is None:
            return None
        self._live_bytes -= place[1]
        return State.from_bytes(self._read(place)).thaw()

    def _put(self, key: bytes, data: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="seekpoint-")  # noqa: SIM115  # open as long as this object
        self._file.seek(self._end)
        self._file.write(data)
        self._places[key] = self._end, len(data)
        self._end += len(data)
        self._live_bytes += len(data)

    def _read(self, place: tuple[int, int]) -> bytes:
        assert self._file is not None
        self._file.seek(place[0], os.SEEK_SET)
        return self._file.read(place[1])

    def _write_anew(self) -> None:
        before, places = self._file, self._places
        assert before is not None
        self._file, self._places, self._end, self._live_bytes = None, {}, 0, 0
        for key, (start, size) in places.items():
            before.seek(start)
            self._put(key, before.read(size))
        before.close()


def slim(draft: Draft) -> Draft:
    """Return the draft, of a finished process without its content."""
    if draft.finished and not draft.content_dropped:
        drop_content(draft)
    return draft
