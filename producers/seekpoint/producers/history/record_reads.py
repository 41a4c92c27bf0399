"""Reads of the records of processes by a node, through forks, and from where an earlier read has ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.producers.history.process_records import (
    DeletedSinceError,
    Line,
    LineReading,
    Place,
    ProcessRecord,
    ReadEnd,
    RecordSelection,
)
from seekpoint.schemas.errors import JournalGap, LogTruncated, Refused
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.state.process_state import State

__all__ = ["RecordReads"]

KEPT_MAX, KEPT_BYTES_MAX = 1_000, 67_108_864
"""How many ends of reads a node remembers, and how many bytes their states may have together."""


class RecordReads:
    """The reads of one node, for its event loop. It remembers the states in which reads ended, the newest ones."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime
        self._ends: OrderedDict[_Selected, ReadEnd] = OrderedDict()
        self._ends_bytes = 0

    async def read(
        self, process_id: str, after: Place | None, selection: RecordSelection, *, through_forks: bool
    ) -> AsyncGenerator[ProcessRecord, None]:
        """Yield the selected records; see ``Node.records``."""
        named_process_key(process_id)
        selected = None if after is None else (after, selection.applied, selection.kinds)
        end = self._ends.get(selected) if selected is not None and selected[0].process_id == process_id else None
        lines = [Line(process_id=process_id, begins=end, after=after)] if end is not None else None
        left = selection.limit
        while True:
            try:
                for line in lines or await self._lines(process_id, after, through_forks):
                    async with aclosing(self._read_line(line, selection, left)) as records:
                        async for record in records:
                            left = None if left is None else left - 1
                            yield record
                    if left == 0:
                        return
                return
            except DeletedSinceError:  # nothing was yielded: read what the process is now
                self._forget(selected)
                lines = None
            except LogTruncated:
                self._forget(selected)
                raise

    async def _read_line(
        self, line: Line, selection: RecordSelection, left: int | None
    ) -> AsyncGenerator[ProcessRecord, None]:
        reading = LineReading(self._runtime.recovery.blocking, line, selection, left)
        last = None
        async with aclosing(self._runtime.recovery.in_threads(reading.batches())) as batches:
            async for batch in batches:
                for record in batch:
                    last = record.offset
                    yield record
        self._remember(line, last, selection, reading.end)

    async def _lines(self, process_id: str, after: Place | None, through_forks: bool) -> list[Line]:
        """Return the parts to read: those of the processes from which it was forked come first."""
        lines: list[Line] = []
        name, stop_seq, seen = process_id, None, set[str]()
        while True:
            newest = await self._newest(name)
            if newest is None and not lines:
                return []
            if newest is None or (stop_seq is not None and stop_seq <= newest.deleted_seq):
                raise JournalGap(
                    "the journal does not have a process from which this one was forked", process_id=process_id,
                    why=f"there is no process {name}, or it was deleted since",
                    hint="through_forks=False reads the process's own entries",
                )  # fmt: skip
            is_here = after is not None and after.process_id == name
            lines.insert(0, Line(process_id=name, begins=newest, after=after if is_here else None, stop_seq=stop_seq))
            seen.add(name)
            name, stop_seq = newest.lineage.parent_id or "", newest.lineage.parent_seq
            if is_here or not name or not stop_seq or name in seen or not through_forks:
                break
        if after is not None and not is_here:
            raise Refused(
                "the cursor is of another process", process_id=process_id, found=after.process_id,
                hint="a cursor is good for the call that gave it, and for the same process",
            )  # fmt: skip
        return lines

    async def _newest(self, process_id: str) -> State | None:
        """Return the state of a process as of now; None if there is none."""
        runtime = self._runtime
        followed = None if runtime.shared_writes is None else await runtime.shared_writes.read_followed(process_id)
        if followed is not None:
            return followed if is_known(followed) else None
        found = await runtime.reads.recover(process_id, missing_ok=True, must_be_current=True)
        return found.state if found.known else None

    def _remember(self, line: Line, last: int | None, selection: RecordSelection, end: ReadEnd | None) -> None:
        """Remember where a read has ended, under the place where the next one goes on."""
        place = line.after if last is None else Place(line.process_id, offset=last)
        if end is None or place is None or line.stop_seq is not None:
            return
        selected = place, selection.applied, selection.kinds
        self._forget(selected)
        self._ends[selected] = end
        self._ends_bytes += _width(end)
        while self._ends and (len(self._ends) > KEPT_MAX or self._ends_bytes > KEPT_BYTES_MAX):
            self._forget(next(iter(self._ends)))

    def _forget(self, selected: _Selected | None) -> None:
        end = None if selected is None else self._ends.pop(selected, None)
        self._ends_bytes -= 0 if end is None else _width(end)


_Selected = tuple[Place, bool, frozenset[str] | None]
"""A place, and what is selected after it."""


def _width(end: ReadEnd) -> int:
    return end.state.content_bytes + end.state.mailbox_bytes
