"""What the console remembers of a process's history: a mark for each entry, by which a page finds its entries."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.schemas.bodies import Claim, Custom
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import UnknownProcess
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seekpoint.console.services.target import CommandTarget
    from seekpoint.consumers.recovery.process_history import Logged

__all__ = ["EntryMark", "ProcessIndex"]


class EntryMark(NamedTuple):
    """An entry without its content."""

    offset: int
    ts_us: int
    """When its writer made it, by the writer's clock."""
    seq: int | None
    epoch: int
    """An owner's entry has its own; another one has the epoch of the process at its offset."""
    kind: str
    custom_kind: str | None
    node_id: str | None
    """Of a claim: who claims."""
    verdict: Verdict | None
    """None: the beginning of the log was deleted, so the fold cannot judge."""


class ProcessIndex:
    """The marks of one process. It reads the history once, then what was appended. Every call blocks."""

    def __init__(self, target: CommandTarget, process_id: str) -> None:
        self._target = target
        self._process_id = process_id
        self.partition = partition_of(process_key(process_id), target.log.partitions)
        self._lock = Lock()
        self._forget(0)

    def marks(self) -> list[EntryMark]:
        """Return the marks of all entries, in log order. The list only grows. Raises ``UnknownProcess``."""
        with self._lock:
            edges = self._target.log.watermarks(self.partition)
            if edges.low != self.low or edges.high < self._position:
                self._forget(edges.low)
            if edges.high > self._position:
                self._read(edges.high)
            return self._marks

    def _forget(self, low: int) -> None:
        self.low = low
        """The first offset of the partition. Above 0, the beginning of the log was deleted."""
        self._marks: list[EntryMark] = []
        self._position = 0
        self._draft = Draft()
        self._epoch = 0

    def _read(self, high: int) -> None:
        from seekpoint.consumers.recovery.process_history import history

        try:
            for batch in history(self._target.recoverer, self._process_id, start=self._position):
                self._take(batch)
        except UnknownProcess:
            if not self._marks:
                raise
        self._position = max(high, self._marks[-1].offset + 1 if self._marks else 0)

    def _take(self, batch: Iterable[Logged]) -> None:
        limits = self._target.log.limits
        for offset, _, entry in batch:
            verdict = None if self.low > 0 else advance(self._draft, offset, entry, limits)
            body = entry.body
            if self.low == 0:
                self._epoch = self._draft.epoch
            elif entry.seq is not None:
                self._epoch = max(self._epoch, entry.epoch)
            self._marks.append(
                EntryMark(
                    offset, entry.ts, entry.seq, self._epoch if entry.seq is None else entry.epoch, entry.kind,
                    body.kind if isinstance(body, Custom) else None,
                    body.node_id if isinstance(body, Claim) else None, verdict,
                )
            )  # fmt: skip
