"""Recovery, blocking: the one logic. ``Recovery`` is the same for asyncio; nodes and the console may use either.

    a base (view, checkpoint, or nothing at offset 0) ──> its seek point ──> the tail, folded ──> state and report

Where a base cannot be used the next one is taken, and the report says why. The view is asked first of all and the end
of the log after it: whatever was acknowledged before the call lies below that end, and what the view has applied must.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader, seek_point
from seekpoint.consumers.log_reading.scan import Cost, scan, scan_all
from seekpoint.consumers.log_reading.stable_end import StableEnds, hidden_note, refusal
from seekpoint.consumers.recovery.base_finder import Base, BaseFinder, Search, Unusable, Way, checkpoint_of
from seekpoint.consumers.recovery.bulk_recovery import Bulk
from seekpoint.consumers.recovery.dead_letters import DeadLetters
from seekpoint.consumers.recovery.fold_renewal import fold_reason
from seekpoint.consumers.recovery.points import NOW, Point, timestamp_ms
from seekpoint.consumers.recovery.recovery_report import LastCheckpoint, Recovered, Report
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.view_store import ViewStore
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import (
    JournalGap,
    LogDamaged,
    LogTruncated,
    SeekpointError,
    TierUnavailable,
    UndecodableRecord,
    UnknownPoint,
    UnknownProcess,
)
from seekpoint.schemas.log.log_ports import Extent, Landmark, LogReader, Record, Watermarks
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.state import Draft, new_state

__all__ = ["Recoverer", "is_known"]

_logger = logging.getLogger("seekpoint.consumers")

_SCAN = Base(Tier.SCAN, new_state(), 0)
_WARN_INTERVAL_S = 10.0


class Recoverer:
    """Finds states. Thread safe; every call blocks.

    ``view`` and ``checkpoints`` make it quick; without them it reads logs from their beginning. Poison that is met goes
    to ``dead_letters``; where they cannot be written the reports say so, and nothing else.
    """

    def __init__(
        self,
        log: LogReader,
        dead_letters: DeadLetters | None = None,
        *,
        view: ViewStore | None = None,
        checkpoints: CheckpointReader | None = None,
        transaction_wait_s: float = 5.0,
    ) -> None:
        self.log = log
        self.dead_letters = dead_letters
        self.bases = BaseFinder(log, view, checkpoints)
        self._ends = StableEnds(log, transaction_wait_s)
        self._warned: dict[str, float] = {}

    def recover(
        self,
        process_id: str,
        *,
        tier: Tier | None = None,
        point: Point = NOW,
        missing_ok: bool = False,
        must_be_current: bool = False,
    ) -> Recovered:
        """The state of a process, now or at ``point``. Raises as ``Recovery.recover`` does."""
        began = time.perf_counter()
        key = process_key(process_id)
        while True:
            search = Search(process_id, key, partition_of(key, self.log.partitions), seq=point.seq)
            if tier is not Tier.SCAN:
                self.bases.look(search, insist=tier is Tier.VIEW)
            inside = self._certain_stop(point, search.partition)
            extent = self._ends.extent(search.partition, inside)
            if extent.hidden and (must_be_current or inside is not None):
                raise refusal(extent, search.partition, process_id=process_id)
            marks = Watermarks(extent.low, extent.high)
            try:
                stop = self._resolve(point, search.partition, marks)
                search.stop = None if point in (NOW, Point(seq=point.seq)) else stop
                found = self._first_usable(search, marks, stop, None if tier is None else Tier(tier), began)
            except (JournalGap, TierUnavailable):
                if not self.is_trimmed_since(search.partition, marks.low):
                    raise
                continue  # a newer floor stands for what is gone
            if extent.hidden:
                return self._as_old(found, search, extent, point, missing_ok)
            self._refuse_missing(found, search, point, marks, missing_ok)
            return found

    def _as_old(self, found: Recovered, search: Search, extent: Extent, point: Point, missing_ok: bool) -> Recovered:
        """The state and a report that says that it may be an old one. What is missing may only be hidden."""
        if point.seq is not None and found.state.seq >= point.seq:
            return found
        if not missing_ok and (point.seq is not None or not found.known):
            raise refusal(extent, search.partition, process_id=search.process_id)
        self._warn(search.partition, hidden_note(extent))
        return found.hiding(extent.hidden, hidden_note(extent))

    def is_trimmed_since(self, partition: int, low: int) -> bool:
        """Whether entries were deleted meanwhile: then what was found does not prove that any is missing."""
        return self.log.watermarks(partition).low > low

    def recover_many(self, process_ids: Iterable[str], *, must_be_current: bool = False) -> dict[str, Recovered]:
        """The states of several processes, one scan a partition. An unknown one is there too: ``known`` is False."""
        found: dict[str, Recovered] = {}
        for partition, wanted in self.by_partition(process_ids).items():
            found.update(self.recover_partition(partition, wanted, must_be_current=must_be_current))
        return found

    def by_partition(self, process_ids: Iterable[str]) -> dict[int, list[str]]:
        """Which of them live in which partition."""
        homes: dict[int, list[str]] = {}
        for process_id in dict.fromkeys(process_ids):
            homes.setdefault(partition_of(process_key(process_id), self.log.partitions), []).append(process_id)
        return homes

    def recover_partition(
        self,
        partition: int,
        process_ids: Sequence[str] | None = None,
        *,
        tier: Tier | None = None,
        must_be_current: bool = False,
    ) -> dict[str, Recovered]:
        """The states of these processes of one partition (None: of all that have entries there), by one scan.

        It starts at the lowest of their seek points.
        """
        keys = None if process_ids is None else [process_key(process_id) for process_id in process_ids]
        while True:
            low = self.log.watermarks(partition).low
            try:
                return self._bulk_or_scan(partition, keys, tier, must_be_current)
            except (JournalGap, TierUnavailable):
                if not self.is_trimmed_since(partition, low):
                    raise

    def _bulk_or_scan(
        self, partition: int, keys: Sequence[bytes] | None, tier: Tier | None, must_be_current: bool
    ) -> dict[str, Recovered]:
        bulk = Bulk(self.log, self.bases, partition, keys)
        try:
            return self._bulk(bulk, partition, keys, tier, must_be_current)
        except (JournalGap, LogTruncated) as exc:
            if tier is not None or not bulk.bases:
                raise
            scan_only = Bulk(self.log, self.bases, partition, keys)
            scan_only.notes.append(f"{next(iter(bulk.bases.values())).tier}: {exc.message}")
            return self._bulk(scan_only, partition, keys, Tier.SCAN, must_be_current)

    def _bulk(
        self, bulk: Bulk, partition: int, keys: Sequence[bytes] | None, tier: Tier | None, must_be_current: bool
    ) -> dict[str, Recovered]:
        began = time.perf_counter()
        bulk.look(tier)
        extent = self._ends.extent(partition)
        if extent.hidden and must_be_current:
            raise refusal(extent, partition)
        marks = Watermarks(extent.low, extent.high)
        start = bulk.settle(marks, tier)
        for note in bulk.notes:
            self._warn(partition, note)
        if start < marks.low:
            raise self._gap(marks, partition, None, bulk.notes)
        collector = _EntryCollector(self.keep_poison, bulk.notes)
        drafts = {key: base.state.thaw() for key, base in bulk.bases.items()}
        if keys is None:
            cost = scan_all(self.log, partition, drafts, start, marks.high, collector)
            drafts = {key: draft for key, draft in drafts.items() if is_known(draft)}
        else:
            cost = scan(self.log, partition, drafts, start, marks.high, collector)
        self.refuse_truncated(partition, bulk.landmarks, False, cost.first, marks)
        duration_s = time.perf_counter() - began
        found = {
            key.decode(): _recovered(key, draft, cost, bulk.tier_of(key), start, marks, duration_s, collector.notes)
            for key, draft in drafts.items()
        }
        if not extent.hidden:
            return found
        note = hidden_note(extent)
        self._warn(partition, note)
        return {process_id: one.hiding(extent.hidden, note) for process_id, one in found.items()}

    def last_checkpoint(self, process_id: str) -> LastCheckpoint | None:
        """The process's newest checkpoint, None if it has none. One that cannot be used says so in ``problem``."""
        key = process_key(process_id)
        partition = partition_of(key, self.log.partitions)
        index, reader = self.bases.index, self.bases.checkpoints
        if index is None or reader is None:
            return None
        while True:
            found = index.find(partition, key)
            if found.damage is not None:
                raise found.damage
            if found.saved is None:
                return None
            value = reader.at(partition, found.saved.position, key)
            if value is not None:
                break
        floor = 0 if found.floor is None else found.floor.offset
        start = seek_point(found.saved.offset, floor)
        problem: str | None = None
        try:
            checkpoint_of(value, process_id, self.log.topic_id)
        except Unusable as exc:
            problem = exc.reason
        return LastCheckpoint.of(value, found.saved.position, floor, start, problem)

    def keep_poison(self, record: Record, error: UndecodableRecord) -> SeekpointError | None:
        """Make a dead letter of ``record``. Why that failed, if it did; raises ``TooManyDeadLetters``."""
        return None if self.dead_letters is None else self.dead_letters.add(record, error)

    # --- how ------------------------------------------------------------------------------------------------------
    def _first_usable(self, search: Search, marks: Watermarks, stop: int, tier: Tier | None, began: float) -> Recovered:
        """By the first way that leads there."""
        for note in search.notes:
            self._warn(search.partition, note)
        missing: dict[Tier, str] = {}
        behind: Base | None = None
        for way_tier, way in self.bases.ways(search, marks, tier):
            try:
                base = _looked_at(way, search, marks)
                stale = fold_reason(base.state)
                if stale is not None and tier is None:
                    behind = behind or base
                    raise Unusable(stale)
                if (
                    tier is None
                    and base.tier is Tier.CHECKPOINT
                    and search.seen is not None
                    and search.seen.meta is None
                ):
                    search.notes.append("view: there is none")
                return self._from(base, search, marks, stop, began)
            except Unusable as exc:
                missing[way_tier] = exc.reason
                self._note(search, way_tier, exc)
        if tier in (Tier.VIEW, Tier.CHECKPOINT):
            reasons = f"{tier}: {missing[tier]}"
            raise TierUnavailable(f"no such way to recover ({reasons})", tier=str(tier), process_id=search.process_id)
        if marks.low > 0:
            if behind is not None:  # all that is not of users' folds is as good as ever
                with suppress(Unusable):
                    return self._from(behind, search, marks, stop, began)
            raise self._gap(marks, search.partition, search.process_id, missing.values())
        return self._from(_SCAN, search, marks, stop, began)

    def _from(self, base: Base, search: Search, marks: Watermarks, stop: int, began: float) -> Recovered:
        """The base, and the tail on top of it. ``Unusable`` if the tail shows that it does not stand on this log."""
        collector = _EntryCollector(self.keep_poison, search.notes)
        drafts = {search.key: base.state.thaw()}
        partition, start = search.partition, base.seek_point
        try:
            cost = scan(self.log, partition, drafts, start, stop, collector, stop_seq=search.seq)
            self.refuse_truncated(partition, base.landmarks, base.floor_unknown, cost.first, marks)
        except (JournalGap, LogTruncated) as exc:
            if base.tier is Tier.SCAN:
                raise
            raise Unusable(exc.message) from exc
        duration_s = time.perf_counter() - began
        return _recovered(search.key, drafts[search.key], cost, base.tier, start, marks, duration_s, collector.notes)

    def refuse_truncated(
        self,
        partition: int,
        landmarks: Iterable[Landmark],
        floor_unknown: bool,
        first: Landmark | None,
        marks: Watermarks,
    ) -> None:
        """Raise ``LogTruncated`` if a record that a base stands on is another one now.

        One leader writes one log: a later record of the same epoch proves the earlier. Only where the leader moved in
        between the record itself is looked at; one that was trimmed is accepted.
        """
        for offset, epoch in landmarks:
            if first is None or epoch < 0 or first.leader_epoch in (-1, epoch):
                continue
            there = self.log.leader_epoch_at(partition, offset) if marks.low <= offset < marks.high else -1
            if there not in (-1, epoch) or floor_unknown:
                facts: dict[str, Any] = {"partition": partition, "offset": offset, "leader_epoch": there}
                raise LogTruncated("another leader epoch: the log was truncated", expected=epoch, **facts)

    def _note(self, search: Search, tier: Tier, why: Unusable) -> None:
        """Say what was not as usual; what is not there at all is only worth a word where something else is."""
        if why.usual:
            return
        self.log.check()  # what does not fit a topic that was re-created is no damage: it raises
        search.notes.append(f"{tier}: {why.reason}")
        self._warn(search.partition, search.notes[-1])

    def _warn(self, partition: int, note: str) -> None:
        """In the log, at most every ten seconds the same."""
        text, now = f"{self.log.name}[{partition}] {note}", time.monotonic()
        if now - self._warned.get(text, -_WARN_INTERVAL_S) >= _WARN_INTERVAL_S:
            if len(self._warned) > 1_000:
                self._warned.clear()
            self._warned[text] = now
            _logger.warning("recovery: %s", text)

    def _certain_stop(self, point: Point, partition: int) -> int | None:
        """Return where ``point`` lies if that is known, whatever a transaction hides behind it."""
        if point.time is None:
            return None if point.offset is None else point.offset + 1
        high = self.log.watermarks(partition).high  # asked first: what is found below it can be read
        found = self.log.offset_at(partition, timestamp_ms(point.time))
        return found if found < high else None

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

    def _gap(self, marks: Watermarks, partition: int, process_id: str | None, why: Iterable[str]) -> JournalGap:
        return JournalGap(
            "the beginning of the log is gone, and no checkpoint stands for it",
            journal=self.log.name,
            process_id=process_id,
            partition=partition,
            why="; ".join(dict.fromkeys(why)) or None,
            **_facts(marks),
        )

    def _refuse_missing(
        self, found: Recovered, search: Search, point: Point, marks: Watermarks, missing_ok: bool
    ) -> None:
        facts: dict[str, Any] = {
            "journal": self.log.name,
            "process_id": search.process_id,
            "partition": search.partition,
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


class _EntryCollector:
    """Where a scan's poison goes."""

    def __init__(
        self, keep: Callable[[Record, UndecodableRecord], SeekpointError | None], notes: Iterable[str] = ()
    ) -> None:
        self._keep = keep
        self.notes: dict[str, None] = dict.fromkeys(notes)

    def __call__(self, record: Record, error: UndecodableRecord) -> None:
        failure = self._keep(record, error)
        if failure is not None:
            self.notes[f"dead letters could not be written: {failure.message}"] = None


def is_known(draft: Draft) -> bool:
    """Whether any entry of the process was ever admitted. Forged entries and lost claims alone make no process."""
    return draft.epoch > 0 or bool(draft.remembered)


def _looked_at(way: Way, search: Search, marks: Watermarks) -> Base:
    """The base that ``way`` leads to. A checkpoint whose bytes are damaged is none: ``Unusable``."""
    try:
        return way(search, marks)
    except LogDamaged as exc:
        raise Unusable(exc.message) from exc


def _recovered(
    key: bytes,
    draft: Draft,
    cost: Cost,
    tier: Tier,
    start: int,
    marks: Watermarks,
    duration_s: float,
    notes: Mapping[str, None],
) -> Recovered:
    state = draft.freeze()
    report = Report(
        tier=tier,
        seek_point=start,
        log_start=marks.low,
        log_end=marks.high,
        entries_scanned=cost.scanned,
        entries_applied=cost.applied.get(key, 0),
        bytes=cost.read_bytes,
        duration_s=duration_s,
        last_kind=draft.last_kind,
        poison=cost.poison.get(key, 0),
        first_in_doubt=state.first_in_doubt,
        notes=tuple(notes),
    )
    return Recovered(state=state, report=report, known=is_known(state))


def _facts(marks: Watermarks) -> dict[str, Any]:
    return {"low": marks.low, "high": marks.high}
