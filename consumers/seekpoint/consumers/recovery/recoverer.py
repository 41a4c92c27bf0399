"""Blocking recovery, the one implementation. ``Recovery`` wraps it for asyncio; nodes and the console use either.

    a base (view, checkpoint, or nothing at offset 0) ──> its seek point ──> the tail, folded ──> state and report

If a base cannot be used, the next one is tried, and the report says why. The view is queried first and the end of the
log after it. So the end lies above everything that was acknowledged before the call, and above what the view applied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader, seek_point
from seekpoint.consumers.log_reading.lost_ends import stands_on_lost
from seekpoint.consumers.log_reading.scan import BatchListener, scan, scan_all
from seekpoint.consumers.log_reading.stable_end import StableEnds, hidden_end_error, hidden_note
from seekpoint.consumers.recovery.base_finder import BaseFinder, BaseLookup, checkpoint_of
from seekpoint.consumers.recovery.base_search import Base, Search, Unusable
from seekpoint.consumers.recovery.dead_letters import DeadLetters, PoisonCollector
from seekpoint.consumers.recovery.fold_renewal import fold_reason
from seekpoint.consumers.recovery.points import NOW, Point, timestamp_ms
from seekpoint.consumers.recovery.recovery_report import LastCheckpoint, Recovered, is_known
from seekpoint.consumers.recovery.tiers import Tier, TierCounts
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import (
    JournalGap,
    LogDamaged,
    SeekpointError,
    TierUnavailable,
    UndecodableRecord,
    UnknownPoint,
    UnknownProcess,
)
from seekpoint.schemas.log.log_ports import Extent, LogReader, Record, Watermarks
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.bulk_bases import BulkBases
    from seekpoint.consumers.view.view_store import ViewStore

_logger = logging.getLogger("seekpoint.consumers")

_SCAN = Base(Tier.SCAN, new_state(), 0)
_WARN_INTERVAL_S = 10.0
_LOST = "it stands on entries that the log lost; the loss was accepted"


class Recoverer:
    """Recovers states. Thread safe; every call blocks.

    ``view`` and ``checkpoints`` make recoveries short; without them every recovery reads the log from its beginning.
    Poison goes to ``dead_letters``. If a dead letter cannot be written, the report says so and the recovery goes on.
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
        self.base_finder = BaseFinder(log, view, checkpoints)
        self.recoveries = TierCounts()
        """How many states were recovered, by tier."""
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
        """Return the state of a process, now or at ``point``. Raises as ``Recovery.recover`` does."""
        began = time.perf_counter()
        key = process_key(process_id)
        while True:
            search = Search(process_id, key, partition_of(key, self.log.partitions), seq=point.seq)
            if tier is not Tier.SCAN:
                self.base_finder.query_view(search, force=tier is Tier.VIEW)
            certain_stop = self._certain_stop(point, search.partition)
            extent = self._ends.extent(search.partition, certain_stop)
            if extent.hidden and (must_be_current or certain_stop is not None):
                raise hidden_end_error(extent, search.partition, process_id)
            marks = Watermarks(extent.low, extent.high)
            try:
                stop = self._resolve(point, search.partition, marks)
                search.stop = None if point in (NOW, Point(seq=point.seq)) else stop
                found = self._first_usable(search, marks, stop, None if tier is None else Tier(tier), began)
                self.recoveries.add([found.report.tier])
            except (JournalGap, TierUnavailable):
                if not self.is_trimmed_since(search.partition, marks.low):
                    raise
                continue  # a newer floor covers the deleted entries
            if extent.hidden:
                return self._maybe_outdated(found, search, extent, point, missing_ok)
            self._refuse_missing(found, search, point, marks, missing_ok)
            return found

    def _maybe_outdated(
        self, found: Recovered, search: Search, extent: Extent, point: Point, missing_ok: bool
    ) -> Recovered:
        """Return the state with a note that it may be an old one. A missing process or seq may only be hidden."""
        if point.seq is not None and found.state.seq >= point.seq:
            return found
        if not missing_ok and (point.seq is not None or not found.known):
            raise hidden_end_error(extent, search.partition, search.process_id)
        self._warn(search.partition, hidden_note(extent))
        return found.with_hidden_end(extent.hidden, hidden_note(extent))

    def is_trimmed_since(self, partition: int, low: int) -> bool:
        """Return whether entries were deleted since the log began at ``low``. Then a missing entry proves nothing."""
        return self.log.watermarks(partition).low > low

    def readable_end(self, partition: int, process_id: str | None = None) -> int:
        """Return the offset below which everything that was acknowledged before this call can be read.

        Raises ``TransactionOpen`` if another producer's transaction hides part of it.
        """
        extent = self._ends.extent(partition)
        if extent.hidden:
            raise hidden_end_error(extent, partition, process_id)
        return extent.high

    def recover_many(self, process_ids: Iterable[str], *, must_be_current: bool = False) -> dict[str, Recovered]:
        """Return the states of several processes, with one scan a partition. An unknown one has ``known`` False."""
        found: dict[str, Recovered] = {}
        for partition, ids in self.by_partition(process_ids).items():
            found.update(self.recover_partition(partition, ids, must_be_current=must_be_current))
        return found

    def by_partition(self, process_ids: Iterable[str]) -> dict[int, list[str]]:
        """Group process ids by their partition."""
        groups: dict[int, list[str]] = {}
        for process_id in dict.fromkeys(process_ids):
            groups.setdefault(partition_of(process_key(process_id), self.log.partitions), []).append(process_id)
        return groups

    def recover_partition(
        self,
        partition: int,
        process_ids: Sequence[str] | None = None,
        *,
        tier: Tier | None = None,
        must_be_current: bool = False,
        skip_unusable: bool = False,
        on_batch: BatchListener | None = None,
    ) -> dict[str, Recovered]:
        """Return the states of these processes of one partition (None: of all with entries there), with one scan.

        The scan starts at the lowest of their seek points. Where all are asked for, ``on_batch`` receives each batch
        that the scan reads. A process whose checkpoint is damaged, in a trimmed log, is left out with a warning where
        all are asked for, or with ``skip_unusable``; else it is a ``JournalGap``, or a ``NewerFormat``.
        """
        keys = None if process_ids is None else [process_key(process_id) for process_id in process_ids]
        while True:
            low = self.log.watermarks(partition).low
            try:
                return self._bulk_or_scan(partition, keys, tier, must_be_current, skip_unusable, on_batch)
            except (JournalGap, TierUnavailable):
                if not self.is_trimmed_since(partition, low):
                    raise

    def _bulk_or_scan(
        self,
        partition: int,
        keys: Sequence[bytes] | None,
        tier: Tier | None,
        must_be_current: bool,
        skip_unusable: bool,
        on_batch: BatchListener | None,
    ) -> dict[str, Recovered]:
        from seekpoint.consumers.recovery.bulk_bases import BulkBases

        bulk = BulkBases(self.log, self.base_finder, partition, keys)
        try:
            return self._bulk(bulk, tier, must_be_current, skip_unusable, on_batch)
        except JournalGap as exc:
            if tier is not None or not (bulk.by_key or bulk.landmarks):
                raise
            scan_only = BulkBases(self.log, self.base_finder, partition, keys)
            scan_only.notes.append(
                f"{next(iter(bulk.by_key.values())).tier if bulk.by_key else 'floor'}: {exc.message}"
            )
            return self._bulk(scan_only, Tier.SCAN, must_be_current, skip_unusable, on_batch)

    def _bulk(
        self,
        bulk: BulkBases,
        tier: Tier | None,
        must_be_current: bool,
        skip_unusable: bool,
        on_batch: BatchListener | None,
    ) -> dict[str, Recovered]:
        began, partition = time.perf_counter(), bulk.partition
        bulk.query_view(tier)
        extent = self._ends.extent(partition)
        if extent.hidden and must_be_current:
            raise hidden_end_error(extent, partition)
        marks = Watermarks(extent.low, extent.high)
        start = bulk.choose(marks, tier)
        for note in bulk.notes:
            self._warn(partition, note)
        if bulk.unusable and not (skip_unusable or bulk.keys is None):
            raise bulk.newer or self._gap(marks, partition, min(bulk.unusable).decode(), bulk.notes)
        if start < marks.low:
            raise self._gap(marks, partition, None, bulk.notes)
        poison = PoisonCollector(self.add_dead_letter, bulk.notes)
        drafts = {key: base.state.thaw() for key, base in bulk.by_key.items()}
        if bulk.keys is None:
            stats = scan_all(self.log, partition, drafts, start, marks.high, poison.add, on_batch=on_batch)
            drafts = {key: draft for key, draft in drafts.items() if is_known(draft) and key not in bulk.unusable}
        else:
            stats = scan(self.log, partition, drafts, start, marks.high, poison.add)
        if stands_on_lost(self.log, partition, bulk.landmarks, stats.first, marks):
            raise JournalGap(_LOST, journal=self.log.name, partition=partition, **marks._asdict())
        duration_s = time.perf_counter() - began
        found = {
            key.decode(): Recovered.of(key, draft, stats, bulk.tier_of(key), start, marks, duration_s, poison.notes)
            for key, draft in drafts.items()
        }
        self.recoveries.add(one.report.tier for one in found.values())
        if not extent.hidden:
            return found
        note = hidden_note(extent)
        self._warn(partition, note)
        return {process_id: one.with_hidden_end(extent.hidden, note) for process_id, one in found.items()}

    def last_checkpoint(self, process_id: str) -> LastCheckpoint | None:
        """Return the process's newest checkpoint, None if it has none. ``problem`` says why it cannot be used."""
        key = process_key(process_id)
        partition = partition_of(key, self.log.partitions)
        if self.base_finder.index is None:
            return None
        located, value = self.base_finder.index.read_newest(partition, key)
        if located.damage is not None:
            raise located.damage
        if located.head is None or value is None:
            return None
        floor = 0 if located.floor is None else located.floor.offset
        start = seek_point(located.head.offset, floor)
        problem: str | None = None
        try:
            checkpoint_of(value, process_id, self.log.topic_id)
        except Unusable as exc:
            problem = exc.reason
        return LastCheckpoint.of(value, located.head.position, floor, start, problem)

    def add_dead_letter(self, record: Record, error: UndecodableRecord) -> SeekpointError | None:
        """Write a dead letter for ``record``; return why that failed. Raises ``TooManyDeadLetters``."""
        return None if self.dead_letters is None else self.dead_letters.add(record, error)

    # --- one process ----------------------------------------------------------------------------------------------
    def _first_usable(self, search: Search, marks: Watermarks, stop: int, tier: Tier | None, began: float) -> Recovered:
        """Recover from the first base that can be used."""
        for note in search.notes:
            self._warn(search.partition, note)
        missing: dict[Tier, str] = {}
        stale_base: Base | None = None
        for base_tier, look_up in self.base_finder.lookups(search, marks, tier):
            try:
                base = _base_from(look_up, search, marks)
                stale = fold_reason(base.state)
                if stale is not None and tier is None:
                    stale_base = stale_base or base
                    raise Unusable(stale)
                if tier is None and base.tier is Tier.CHECKPOINT and search.has_no_view:
                    search.notes.append("view: there is none")
                return self._recover_from(base, search, marks, stop, began)
            except Unusable as exc:
                missing[base_tier] = exc.reason
                self._note(search, base_tier, exc)
        if tier in (Tier.VIEW, Tier.CHECKPOINT):
            reasons = f"{tier}: {missing[tier]}"
            raise TierUnavailable(f"no such way to recover ({reasons})", tier=str(tier), process_id=search.process_id)
        if marks.low > 0:
            if stale_base is not None:  # only the results of users' folds are out of date
                with suppress(Unusable):
                    return self._recover_from(stale_base, search, marks, stop, began)
            raise self._gap(marks, search.partition, search.process_id, missing.values())
        return self._recover_from(_SCAN, search, marks, stop, began)

    def _recover_from(self, base: Base, search: Search, marks: Watermarks, stop: int, began: float) -> Recovered:
        """Fold the tail onto ``base``. Raises ``Unusable`` if the tail shows that the base is of another log."""
        poison = PoisonCollector(self.add_dead_letter, search.notes)
        drafts = {search.key: base.state.thaw()}
        partition, start = search.partition, base.seek_point
        try:
            stats = scan(self.log, partition, drafts, start, stop, poison.add, stop_seq=search.seq)
        except JournalGap as exc:
            if base.tier is Tier.SCAN:
                raise
            raise Unusable(exc.message) from exc
        if stands_on_lost(self.log, partition, base.landmarks, stats.first, marks):
            raise Unusable(_LOST)
        epoch = -1 if stats.first is None else stats.first.leader_epoch
        if base.floor_unknown and epoch >= 0 and base.landmarks[0].leader_epoch not in (-1, epoch):
            raise Unusable("another leader wrote since, and its floor may not be in the log any more")
        duration_s = time.perf_counter() - began
        return Recovered.of(search.key, drafts[search.key], stats, base.tier, start, marks, duration_s, poison.notes)

    def _note(self, search: Search, tier: Tier, why: Unusable) -> None:
        """Add a note about a base that should have been usable. An expected absence is not worth one."""
        if why.is_expected:
            return
        self.log.check()  # raises if the topic was re-created: then the base is not damaged
        search.notes.append(f"{tier}: {why.reason}")
        self._warn(search.partition, search.notes[-1])

    def _warn(self, partition: int, note: str) -> None:
        """Log a warning, the same one at most every ten seconds."""
        text, now = f"{self.log.name}[{partition}] {note}", time.monotonic()
        if now - self._warned.get(text, -_WARN_INTERVAL_S) >= _WARN_INTERVAL_S:
            if len(self._warned) > 1_000:
                self._warned.clear()
            self._warned[text] = now
            _logger.warning("recovery: %s", text)

    def _certain_stop(self, point: Point, partition: int) -> int | None:
        """Return the exclusive end of ``point`` if no hidden entry can move it; else None."""
        if point.time is None:
            return None if point.offset is None else point.offset + 1
        high = self.log.watermarks(partition).high  # asked first: an offset below it can be read
        found = self.log.offset_at(partition, timestamp_ms(point.time))
        return found if found < high else None

    def _resolve(self, point: Point, partition: int, marks: Watermarks) -> int:
        """Return the exclusive end of what has to be read for ``point``."""
        if point.time is not None:
            return min(self.log.offset_at(partition, timestamp_ms(point.time)), marks.high)
        if point.offset is None:
            return marks.high
        if point.offset >= marks.high:
            facts = {"offset": point.offset, "partition": partition, **marks._asdict()}
            raise UnknownPoint("the log ends before this offset", **facts)
        return point.offset + 1

    def _gap(self, marks: Watermarks, partition: int, process_id: str | None, why: Iterable[str]) -> JournalGap:
        return JournalGap(
            "the beginning of the log was deleted, and no checkpoint covers it",
            journal=self.log.name,
            process_id=process_id,
            partition=partition,
            why="; ".join(dict.fromkeys(why)) or None,
            **marks._asdict(),
        )

    def _refuse_missing(
        self, found: Recovered, search: Search, point: Point, marks: Watermarks, missing_ok: bool
    ) -> None:
        facts: dict[str, Any] = {
            "journal": self.log.name,
            "process_id": search.process_id,
            "partition": search.partition,
            **marks._asdict(),
        }
        if point.seq is not None and found.state.seq < point.seq and (found.known or not missing_ok):
            raise UnknownPoint("the process has not applied this seq", at_seq=point.seq, seq=found.state.seq, **facts)
        if not found.known:
            self.log.check()  # the empty log of another journal proves nothing
        if not found.known and not missing_ok:
            if found.state.is_deleted:
                facts["seq"] = found.state.seq
                error = UnknownProcess if point == NOW else UnknownPoint
                raise error("the process was deleted, and nothing was written to it since", **facts)
            if point == NOW:
                raise UnknownProcess("no such process: the whole partition was read", **facts)
            raise UnknownPoint("the process has no entry up to this point", **facts)


def _base_from(look_up: BaseLookup, search: Search, marks: Watermarks) -> Base:
    """Return the base that ``look_up`` finds. Raises ``Unusable`` also where a checkpoint's bytes are damaged."""
    try:
        return look_up(search, marks)
    except LogDamaged as exc:
        raise Unusable(exc.message) from exc
