"""Find the entry ids that a process has: whoever repeats an append with the same id gets the first result."""

from __future__ import annotations

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.log.log_ports import LogReader

ID_BYTES = 16

_WIDTH = 300
"""About how many bytes of memory an entry takes here."""


class WrittenIds:
    """The ids of the owners' entries of one process, from ``read_to`` on unknown.

    Of several entries with one seq, the fold has applied that of the highest epoch, if it has applied any: an owner
    sends a seq only if the log, up to its claim, has not applied that seq. So no state is needed to tell an entry that
    was applied from one that was fenced.
    """

    def __init__(self, key: bytes, partition: int, start: int, *, seqs_kept: int | None = None) -> None:
        """``seqs_kept``: how many of the highest seqs it knows at least; None: all of them."""
        self.read_to = start
        self._seqs_kept = seqs_kept
        self._forgotten = 0
        """The highest seq that was forgotten. What comes later of it, or of a lower one, is a fenced owner's."""
        self._key = key
        self._partition = partition
        self._newest: dict[int, tuple[int, bytes]] = {}
        """By seq: the highest epoch that an entry with it has, and the id of this entry."""
        self._found: dict[bytes, tuple[int, int]] = {}
        """By id: the seq and the offset of the entry that may be applied."""

    @property
    def width(self) -> int:
        """Return about how many bytes of memory this takes."""
        return len(self._newest) * _WIDTH

    def read(self, reader: LogReader, stop: int) -> None:
        """Read the log up to ``stop``. What was trimmed is not known any more. Blocks."""
        start = max(self.read_to, reader.watermarks(self._partition).low)
        for batch in reader.read(self._partition, start, stop, {self._key}):
            for record, entry in entries_of(batch.records, reader):
                self.note(entry, record.offset)
        self.read_to = max(self.read_to, stop)

    def note(self, entry: Entry, offset: int) -> None:
        """Take note of an entry in the log."""
        if entry.seq is None or entry.seq <= self._forgotten:
            return
        epoch, _ = self._newest.get(entry.seq, (-1, b""))
        if entry.epoch > epoch:
            self._newest[entry.seq] = entry.epoch, entry.id
            self._found[entry.id] = entry.seq, offset
            if self._seqs_kept is not None and len(self._newest) >= 2 * self._seqs_kept:
                self._forget(self._seqs_kept)

    def _forget(self, kept: int) -> None:
        """Forget all but the ``kept`` highest seqs. Their number counts: anybody may forge an entry of a high one."""
        self._forgotten = max(self._forgotten, sorted(self._newest)[-kept - 1])
        self._newest = {seq: self._newest[seq] for seq in sorted(self._newest)[-kept:]}
        self._found = {entry_id: found for entry_id, found in self._found.items() if found[0] in self._newest}

    def find(self, entry_id: bytes, seq: int) -> tuple[int, int] | None:
        """Return seq and offset of the entry ``entry_id``, if it was applied: the process is at ``seq`` now."""
        found = self._found.get(entry_id)
        if found is None or found[0] > seq or self._newest[found[0]][1] != entry_id:
            return None
        return found


def check_entry_id(process_id: str, entry_id: bytes) -> None:
    """Raise ``Refused`` for an id that no entry has."""
    if type(entry_id) is not bytes or len(entry_id) != ID_BYTES:
        raise Refused(
            f"an entry id has {ID_BYTES} bytes", process_id=process_id, asked=repr(entry_id)[:60],
            hint="pass uuid.uuid4().bytes, and the same id when you repeat the call",
        )  # fmt: skip
