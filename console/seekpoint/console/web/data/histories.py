"""The histories that somebody looks at: the newest few processes stay in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from seekpoint.console.web.data.process_index import ProcessIndex
from seekpoint.console.web.data.timeline import Timeline, timeline_of
from seekpoint.schemas.bodies import Claim
from seekpoint.schemas.folding.fold import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from seekpoint.console.services.target import CommandTarget
    from seekpoint.console.web.data.process_index import EntryMark
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.durable.replay.call_records import CallRecord
    from seekpoint.schemas.bodies.entry import Entry

__all__ = ["Histories", "ProcessHistory"]

_PROCESSES_MAX = 4
_COUNTS = frozenset({Verdict.APPLIED, Verdict.CLAIM_WON, Verdict.DELIVERED})
_HOLE_MAX = 500
"""So many offsets of no interest are read on the way, rather than begin another read behind them."""


class Histories:
    """Keeps the indexes and calls of the processes that were looked at last."""

    def __init__(self, target: CommandTarget) -> None:
        self._target = target
        self._kept: OrderedDict[str, ProcessHistory] = OrderedDict()
        self._lock = Lock()

    def of(self, process_id: str) -> ProcessHistory:
        """Return the history of a process, which reads the log when it is asked. Raises ``InvalidName``."""
        with self._lock:
            found = self._kept.pop(process_id, None) or ProcessHistory(self._target, process_id)
            self._kept[process_id] = found
            while len(self._kept) > _PROCESSES_MAX:
                self._kept.popitem(last=False)
            return found


class ProcessHistory:
    """One process: the marks of its entries, its entries, its calls. Every call blocks."""

    def __init__(self, target: CommandTarget, process_id: str) -> None:
        self._target = target
        self.process_id = process_id
        self.index = ProcessIndex(target, process_id)
        self._lock = Lock()
        self._calls: tuple[tuple[int, int], list[CallRecord]] | None = None
        self._timeline: tuple[list[CallRecord], Timeline] | None = None

    def calls(self) -> list[CallRecord]:
        """Return the calls as ``seekpoint steps`` has them. They are read again only after an entry was appended.

        Raises ``UnknownProcess``, and ``JournalGap`` if the beginning of the log was deleted.
        """
        from seekpoint.console.services.process_scan import entries_of
        from seekpoint.producers.history.inherited_calls import calls_of

        with self._lock:
            marks = self.index.marks()
            version = len(marks), marks[-1].offset if marks else -1
            if self._calls is None or self._calls[0] != version:

                def read(name: str) -> list[Entry]:
                    own = self._judged(marks) if name == self.process_id else None
                    return entries_of(self._target, name) if own is None else own

                self._calls = version, calls_of(read, self.process_id, self._target.log.limits)
            return self._calls[1]

    def _judged(self, marks: Sequence[EntryMark]) -> list[Entry] | None:
        """Return the valid entries by the verdicts of the index, so that the history is not folded once more.

        None if the history does not begin with a claim that won: then ``entries_of`` says what is missing.
        """
        first = next((one for one in marks if one.seq is not None or one.kind == Claim.KIND), None)
        if first is None or first.verdict is not Verdict.CLAIM_WON:
            return None
        return [one.entry for one in self.entries([mark.offset for mark in marks if mark.verdict in _COUNTS])]

    def timeline(self) -> tuple[list[CallRecord], Timeline]:
        """Return the calls, and the timeline whose rows refer to them. Raises as ``calls`` does."""
        calls = self.calls()
        kept = self._timeline
        if kept is None or kept[0] is not calls:
            kept = self._timeline = calls, timeline_of(calls, self.index.marks())
        return kept

    def entries(self, offsets: Collection[int]) -> Iterator[Logged]:
        """Yield the entries at ascending offsets. An entry that was deleted meanwhile is left out."""
        from seekpoint.consumers.log_reading.scan import entries_of as decoded
        from seekpoint.consumers.recovery.process_history import Logged
        from seekpoint.schemas.bodies.entry import process_key

        log, key = self._target.log, process_key(self.process_id)
        wanted = frozenset(offsets)
        for start, stop in _stretches(offsets, log.watermarks(self.index.partition).low):
            for batch in log.read(self.index.partition, start, stop, {key}):
                chosen = [record for record in batch.records if record.offset in wanted]
                for record, entry in decoded(chosen, log):
                    yield Logged(record.offset, record.timestamp_ms, entry)


def _stretches(offsets: Collection[int], low: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of the log that hold the offsets.

    >>> [*_stretches([1, 5, 400, 5000], 3)]
    [(5, 401), (5000, 5001)]
    """
    start: int | None = None
    stop = 0
    for offset in offsets:
        if offset < low:
            continue
        if start is not None and offset - stop > _HOLE_MAX:
            yield start, stop
            start = None
        start = offset if start is None else start
        stop = offset + 1
    if start is not None:
        yield start, stop
