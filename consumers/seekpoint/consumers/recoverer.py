"""Recovery, blocking: the one logic. ``Recovery`` is the same for asyncio; nodes and the console may use either.

So far a state is found by scan: from the beginning of the partition, comparing keys, decoding only its own entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seekpoint.consumers.deadletters import DeadLetters
from seekpoint.consumers.points import NOW, Point, timestamp_ms
from seekpoint.consumers.report import Recovered, Report
from seekpoint.consumers.scan import Cost, scan, scan_all
from seekpoint.consumers.tiers import Tier, choose_tier
from seekpoint.schemas.entry import process_key
from seekpoint.schemas.errors import JournalGap, SeekpointError, UndecodableRecord, UnknownPoint, UnknownProcess
from seekpoint.schemas.log import LogReader, Record, Watermarks
from seekpoint.schemas.partition import partition_of
from seekpoint.schemas.state import Draft

__all__ = ["Recoverer", "is_known"]

_MISSING = {Tier.VIEW: "no view is kept", Tier.CHECKPOINT: "no checkpoints are kept"}


class Recoverer:
    """Finds states in a log. Thread safe; every call blocks.

    Poison that is met goes to ``dead_letters``; where they cannot be written the reports say so, and nothing else.
    """

    def __init__(self, log: LogReader, dead_letters: DeadLetters | None = None) -> None:
        self.log = log
        self.dead_letters = dead_letters

    def recover(
        self, process_id: str, *, tier: Tier | None = None, point: Point = NOW, missing_ok: bool = False
    ) -> Recovered:
        """The state of a process, now or at ``point``. Raises as ``Recovery.recover`` does."""
        began = time.perf_counter()
        key = process_key(process_id)
        chosen = choose_tier(_MISSING, tier)
        partition = partition_of(key, self.log.partitions)
        marks = self.log.watermarks(partition)
        self._refuse_trimmed(marks, partition, process_id)
        stop = self._resolve(point, partition, marks)
        collector = _Collector(self.keep_poison)
        drafts = {key: Draft()}
        cost = scan(self.log, partition, drafts, 0, stop, collector, stop_seq=point.seq)
        [found] = _recovered(drafts, cost, chosen, marks, time.perf_counter() - began, collector).values()
        self._refuse_missing(found, process_id, partition, point, marks, missing_ok)
        return found

    def recover_many(self, process_ids: Iterable[str]) -> dict[str, Recovered]:
        """The states of several processes, one scan a partition. An unknown one is there too: ``known`` is False."""
        found: dict[str, Recovered] = {}
        for partition, wanted in self.by_partition(process_ids).items():
            found.update(self.recover_partition(partition, wanted))
        return found

    def by_partition(self, process_ids: Iterable[str]) -> dict[int, list[str]]:
        """Which of them live in which partition."""
        homes: dict[int, list[str]] = {}
        for process_id in dict.fromkeys(process_ids):
            homes.setdefault(partition_of(process_key(process_id), self.log.partitions), []).append(process_id)
        return homes

    def recover_partition(self, partition: int, process_ids: Sequence[str] | None = None) -> dict[str, Recovered]:
        """The states of these processes of one partition (None: of all that have entries there), by one scan."""
        began = time.perf_counter()
        chosen = choose_tier(_MISSING)
        marks = self.log.watermarks(partition)
        self._refuse_trimmed(marks, partition, None)
        collector = _Collector(self.keep_poison)
        if process_ids is None:
            drafts, cost = scan_all(self.log, partition, 0, marks.high, collector)
            drafts = {key: draft for key, draft in drafts.items() if is_known(draft)}
        else:
            drafts = {process_key(process_id): Draft() for process_id in process_ids}
            cost = scan(self.log, partition, drafts, 0, marks.high, collector)
        return _recovered(drafts, cost, chosen, marks, time.perf_counter() - began, collector)

    def keep_poison(self, record: Record, error: UndecodableRecord) -> SeekpointError | None:
        """Make a dead letter of ``record``. Why that failed, if it did; raises ``TooManyDeadLetters``."""
        return None if self.dead_letters is None else self.dead_letters.add(record, error)

    # --- how ------------------------------------------------------------------------------------------------------
    def _resolve(self, point: Point, partition: int, marks: Watermarks) -> int:
        """The exclusive end of what is read for ``point``."""
        if point.time is not None:
            return min(self.log.offset_at(partition, timestamp_ms(point.time)), marks.high)
        if point.offset is None:
            return marks.high
        if point.offset >= marks.high:
            facts = {"offset": point.offset, "partition": partition, **_facts(marks)}
            raise UnknownPoint("the log ends before this offset", **facts)
        return point.offset + 1

    def _refuse_trimmed(self, marks: Watermarks, partition: int, process_id: str | None) -> None:
        if marks.low > 0:
            raise JournalGap(
                "the beginning of the log is gone, and no checkpoint stands for it",
                journal=self.log.name,
                process_id=process_id,
                partition=partition,
                **_facts(marks),
            )

    def _refuse_missing(
        self, found: Recovered, process_id: str, partition: int, point: Point, marks: Watermarks, missing_ok: bool
    ) -> None:
        facts: dict[str, Any] = {
            "journal": self.log.name,
            "process_id": process_id,
            "partition": partition,
            **_facts(marks),
        }
        if point.seq is not None and found.state.seq < point.seq and (found.known or not missing_ok):
            raise UnknownPoint("the process has not applied this seq", at_seq=point.seq, seq=found.state.seq, **facts)
        if not found.known:
            self.log.check()  # an empty log that is not ours proves nothing
        if not found.known and not missing_ok:
            if point == NOW:
                raise UnknownProcess("no such process: the whole partition was read", **facts)
            raise UnknownPoint("the process has no entry up to this point", **facts)


class _Collector:
    """Where a scan's poison goes."""

    def __init__(self, keep: Callable[[Record, UndecodableRecord], SeekpointError | None]) -> None:
        self._keep = keep
        self.notes: dict[str, None] = {}

    def __call__(self, record: Record, error: UndecodableRecord) -> None:
        failure = self._keep(record, error)
        if failure is not None:
            self.notes[f"dead letters could not be written: {failure.message}"] = None


def is_known(draft: Draft) -> bool:
    """Whether any entry of the process was ever admitted. Forged entries and lost claims alone make no process."""
    return draft.epoch > 0 or bool(draft.remembered)


def _recovered(
    drafts: Mapping[bytes, Draft], cost: Cost, tier: Tier, marks: Watermarks, duration_s: float, poison: _Collector
) -> dict[str, Recovered]:
    def report(key: bytes, draft: Draft) -> Report:
        return Report(
            tier=tier,
            seek_point=0,
            log_start=marks.low,
            log_end=marks.high,
            entries_scanned=cost.scanned,
            entries_applied=cost.applied.get(key, 0),
            bytes=cost.read_bytes,
            duration_s=duration_s,
            last_kind=draft.last_kind,
            poison=cost.poison.get(key, 0),
            notes=tuple(poison.notes),
        )

    return {
        key.decode(): Recovered(state=draft.freeze(), report=report(key, draft), known=is_known(draft))
        for key, draft in drafts.items()
    }


def _facts(marks: Watermarks) -> dict[str, Any]:
    return {"low": marks.low, "high": marks.high}
