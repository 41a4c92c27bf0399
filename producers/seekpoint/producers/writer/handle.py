"""The owner's side of one process: what was sent, what was acknowledged, what is confirmed. Pure: no I/O, no clock.

    base   the confirmed fold: everything of the partition below ``position``, as any reader sees it
    acked  own entries acknowledged since, in order
    ahead  base + acked + what is on its way: what the next entry is checked against

A handle is used from one event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Any

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.dataclass import dataclass
from seekpoint.schemas.errors import (
    Fenced,
    HandleClosed,
    IllegalCall,
    IllegalTransition,
    LimitExceeded,
    LogTruncated,
    ProcessDegraded,
    SeekpointError,
    UndecodableRecord,
)
from seekpoint.schemas.folding.fold import Verdict, advance, try_own
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.calls import times_forgotten
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_budget import Budget
from seekpoint.schemas.state.process_state import Draft, MailItem, State
from seekpoint.schemas.wire.codec import encode, encode_within, is_entry

__all__ = ["Handle", "HandleStatus", "Pending"]


ATTEMPTS_MAX = 3
"""How often one entry is sent, healing in between, while the broker refuses it."""

_COUNTED = frozenset({Verdict.APPLIED, Verdict.MISFIT})
"""The verdicts by which an owner's entry takes its seq."""

_REFUSALS = {"state_limit": LimitExceeded, "illegal_call": IllegalCall}
"""What a misfit is to who asked for it; any other is an ``IllegalTransition``."""


class HandleStatus(Enum):
    """What a handle may do."""

    OPEN = "appends"
    HEALING = "keeps what it is given until it has claimed again"
    CLOSED = "nothing more"


@dataclass(slots=True, eq=False)
class Pending:
    """An entry that was handed over and is not yet acknowledged."""

    handle: Handle
    seq: int
    entry: Entry
    value: bytes
    future: asyncio.Future[int] | None
    offset: int | None = None
    shipment: object = None
    """What it left in: the outbox's."""
    attempts: int = 1
    failure: SeekpointError | None = None
    """What its last attempt failed with, if it failed."""

    def tell(self, offset: int) -> None:
        """Its agent hears that it is in the log. The future is not kept: thousands wait here to be confirmed."""
        future, self.future = self.future, None
        if future is not None and not future.done():
            future.set_result(offset)

    def fail(self, error: SeekpointError) -> None:
        """Its agent hears why it may not be in the log."""
        future, self.future = self.future, None
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # a start entry nobody awaits must not warn at its end


class Handle:
    """One open process. ``state`` is what its agent sees: the confirmed fold plus its own acknowledged entries."""

    def __init__(self, process_id: str, state: State, position: int, reader: LogReader) -> None:
        assert state.owner is not None
        self.process_id = process_id
        self.key = process_key(process_id)
        self.partition = partition_of(self.key, reader.partitions)
        self.epoch = state.epoch
        self.claim_id: bytes = state.owner
        self.status = HandleStatus.OPEN
        self.error: SeekpointError | None = None
        self.position = position
        self.pending: deque[Pending] = deque()
        self.fenced_entries = 0
        self.last_offset = state.offset
        self.mail_changed = asyncio.Event()
        self.ending = False
        """A release or a finish was sent: nothing may follow it."""
        self.ended = False
        """The release or finish is confirmed; whoever claims afterwards fences nobody."""
        self.healing_claims: set[bytes] = set()
        self._reader = reader
        self.limits = reader.limits
        self._base = state.thaw()
        self._ahead = state.thaw()
        self._acked: dict[int, Entry] = {}
        self._told: Draft | None = None
        self._snapshot: State | None = None

    # --- what the agent sees
    @property
    def state(self) -> State:
        """Confirmed plus acknowledged, frozen."""
        if self._snapshot is None:
            if self.pending:
                self._snapshot = self._acknowledged().snapshot()
            else:
                self._ahead.offset = max(self._ahead.offset, self.last_offset)
                self._snapshot = self._ahead.snapshot()
        return self._snapshot

    @property
    def mail(self) -> list[MailItem]:
        """What waits in the mailbox, oldest first, without what is being received already: each is taken once."""
        return list(self._ahead.mailbox.values())

    def _acknowledged(self) -> Draft:
        """The state without what is on its way; kept, so that the next call folds only what came since."""
        if self._told is None:
            self._told = self._base.snapshot().thaw()
        fresh: list[tuple[int, Entry]] = []
        for offset in reversed(self._acked):
            if offset <= self._told.offset:
                break
            fresh.append((offset, self._acked[offset]))
        for offset, entry in reversed(fresh):
            advance(self._told, offset, entry, self.limits)
        return self._told

    def has_room(self, width: int) -> bool:
        """Whether the state, with all that was sent, takes ``width`` bytes more."""
        return self._ahead.content_bytes + width <= self.limits.state_bytes

    def times_forgotten(self, key: str) -> int:
        """How often a rewind forgot the call ``key``: asked at each call, so without a snapshot."""
        return times_forgotten(self._ahead.forgotten, key)

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle that the next entry is checked against."""
        return self._ahead.lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget as the next entry finds it: with everything that is reserved for calls on their way."""
        return self._ahead.budget

    @property
    def acknowledged_seq(self) -> int:
        """The last seq that was acknowledged with all below it."""
        return self.pending[0].seq - 1 if self.pending else self._ahead.seq

    @property
    def unconfirmed(self) -> int | None:
        """The offset of the newest acknowledged entry that is not confirmed; None if all are."""
        return next(reversed(self._acked), None)

    # --- sending
    def prepare(
        self, entry_id: bytes, ts: int, body: b.Body, cause: Cause, future: asyncio.Future[int] | None
    ) -> Pending:
        """Check ``body`` against everything sent so far, give it its seq, encode it.

        Raises ``IllegalTransition``, ``IllegalCall`` or ``LimitExceeded`` (nothing changed), or why the handle is
        closed.
        """
        self.check_open()
        seq = self._ahead.seq + 1
        # What never changes about an entry is checked by its size first: an oversized one must not touch the state.
        entry = Entry(
            entry_id, self.process_id, seq, self.epoch, self.claim_id, self.last_offset, ts, cause.actor,
            cause.caused_by, cause.correlation_id, body,
        )  # fmt: skip
        value = encode_within(entry, self.key, self.limits)
        misfit = try_own(self._ahead, seq, body, self.limits)
        if misfit is not None:
            raise self._refusal(misfit)
        pending = Pending(self, seq, entry, value, future)
        self.pending.append(pending)
        return pending

    @property
    def is_open(self) -> bool:
        """Whether anything may be sent or confirmed yet."""
        return self.status is not HandleStatus.CLOSED

    def check_open(self) -> None:
        """Raise why nothing more may be sent."""
        if self.status is HandleStatus.CLOSED:
            raise self.error or HandleClosed("the process was released by this handle", process_id=self.process_id)
        if self.ending:
            raise HandleClosed("the process is being released by this handle", process_id=self.process_id)

    def _refusal(self, misfit: tuple[str, str]) -> SeekpointError:
        reason, detail = misfit
        return _REFUSALS.get(reason, IllegalTransition)(detail, process_id=self.process_id, seq=self._ahead.seq)

    # --- acknowledgements (O3: told only when all lower seqs were)
    def acknowledge(self, pending: Pending, offset: int) -> None:
        """``pending`` is in the log at ``offset``; tell the agent of it and of what waited behind it."""
        pending.offset = offset
        while self.pending and self.pending[0].offset is not None:
            done = self.pending.popleft()
            assert done.offset is not None
            self._acked[done.offset] = done.entry
            self.last_offset = done.offset
            self._snapshot = None
            done.tell(done.offset)

    # --- confirmation (O4)
    def absorb(self, records: Iterable[Record], position: int) -> None:
        """Fold the partition's records of this process in [self.position, ``position``) into the confirmed state.

        Afterwards either every own acknowledged entry below ``position`` is confirmed, or the handle is fenced
        (``status`` CLOSED). Raises ``LogTruncated`` if an acknowledged entry is not where it was acknowledged.
        """
        foreign = False
        for record in records:
            if record.offset < self.position:
                continue
            own = self._acked.get(record.offset)
            if own is not None and is_entry(record.value, own.id):
                self._absorb_own(record.offset, own)
            else:
                foreign = self._absorb_other(record) or foreign
        self.position = max(self.position, position)
        self._settle(foreign)

    def _absorb_own(self, offset: int, entry: Entry) -> None:
        verdict = advance(self._base, offset, entry, self.limits)
        self.fenced_entries += verdict is Verdict.STALE
        self._note_end(verdict, entry)

    def _note_end(self, verdict: Verdict, entry: Entry) -> None:
        self.ended = self.ended or (verdict is Verdict.APPLIED and isinstance(entry.body, b.Released | b.Finished))

    def _absorb_other(self, record: Record) -> bool:
        """An entry that is not one of the acknowledged: external, a former owner's, poison, or an own one on its way.

        Whether the own entries have to be laid anew on what it changed.
        """
        if self.pending and record.value == self.pending[0].value:
            entry = self.pending[0].entry  # read back before its acknowledgement came
        else:
            try:
                entry = entry_of(record, self._reader.codec, self._reader.partitions)
            except UndecodableRecord:
                return False  # the reader that projects the partition makes a dead letter of it
        verdict = advance(self._base, record.offset, entry, self.limits)
        return not (verdict in _COUNTED and self._landed(verdict, entry, record.offset))

    def _landed(self, verdict: Verdict, entry: Entry, offset: int) -> bool:
        """Whether ``entry`` is the next own one on its way: that it was read says what an acknowledgement would."""
        pending = self.pending[0] if self.pending else None
        if pending is None or pending.entry.id != entry.id or entry.claim_id != self.claim_id:
            return False
        self._note_end(verdict, entry)
        if self.status is HandleStatus.HEALING and isinstance(entry.body, b.Released):
            pending.offset = offset  # the healing claim may come behind it: then it has to be said again
        else:
            self.acknowledge(pending, offset)
        return True

    def _settle(self, foreign: bool) -> None:
        below = [offset for offset in self._acked if offset < self.position]
        owns = self.ended or self._base.owner == self.claim_id or self._base.owner in self.healing_claims
        if owns:
            self._check_applied(below)
        if below:
            self._told = None  # it may not have folded them yet, and they are about to be forgotten
        for offset in below:
            del self._acked[offset]
        if not owns:
            self.fail(self._fenced())
        elif foreign:
            self._rebuild()

    def _check_applied(self, below: list[int]) -> None:
        """What was acknowledged below the position must be applied: the owner has not changed."""
        seq = self._acked[below[-1]].seq if below else None
        if seq is None or seq <= self._base.seq:
            return
        facts: dict[str, Any] = {"process_id": self.process_id, "partition": self.partition, "offset": below[-1]}
        if self._base.degraded is not None:
            raise ProcessDegraded("acknowledged entries lie behind a gap", expected_seq=self._base.seq + 1, **facts)
        raise LogTruncated("an acknowledged entry is no longer where it was", seq=seq, **facts)

    def _fenced(self) -> Fenced:
        self.fenced_entries += len(self._acked)
        return Fenced(
            "another owner has claimed the process",
            process_id=self.process_id, epoch=self.epoch, new_epoch=self._base.epoch, new_node=self._base.owner_node,
            fenced_entries=self.fenced_entries,
        )  # fmt: skip

    def _rebuild(self) -> None:
        """Externals came in between: lay the own entries anew on the confirmed state."""
        self._ahead = self._base.snapshot().thaw()
        for offset, entry in self._acked.items():
            advance(self._ahead, offset, entry, self.limits)
        for pending in self.pending:
            try_own(self._ahead, pending.seq, pending.entry.body, self.limits)
        self._snapshot = self._told = None
        self.mail_changed.set()

    # --- healing (O5)
    def begin_healing(self) -> int:
        """Keep what is given from now on. The first seq never acknowledged: what the new claim abandons from."""
        self.status = HandleStatus.HEALING
        return self.acknowledged_seq + 1

    def heal(self) -> list[Pending]:
        """``absorb`` has read through the healing claim: what is to be sent again, renumbered under the new epoch.

        What landed after all was acknowledged when it was read. Raises ``ProcessDegraded`` if the claim was refused,
        ``LogTruncated`` if less landed than was acknowledged.
        """
        owner, landed = self._base.owner, self._base.seq
        if self.ended and owner not in self.healing_claims:
            return self._already_over()
        self.ended = False
        if owner not in self.healing_claims or owner is None:
            raise ProcessDegraded("the process cannot be claimed again", process_id=self.process_id, epoch=self.epoch)
        if landed < self.acknowledged_seq:
            raise LogTruncated(
                "acknowledged entries are gone from the log",
                process_id=self.process_id, partition=self.partition, acknowledged=self.acknowledged_seq, found=landed,
            )  # fmt: skip
        self.epoch, self.claim_id = self._base.epoch, owner
        self.healing_claims.clear()
        again = list(self.pending)
        for seq, pending in enumerate(again, start=landed + 1):
            self._renumber(pending, seq)
        self.last_offset = self._base.offset
        self.status = HandleStatus.OPEN
        self._acked.clear()
        self._rebuild()
        return again

    def _already_over(self) -> list[Pending]:
        """The release or finish landed before the healing claim: nothing is left to heal."""
        self.status = HandleStatus.OPEN
        for pending in list(self.pending):
            assert pending.offset is not None
            self.acknowledge(pending, pending.offset)
        return []

    def _renumber(self, pending: Pending, seq: int) -> None:
        if pending.attempts >= ATTEMPTS_MAX and pending.failure is not None:
            raise pending.failure  # the broker refuses this very entry: claiming again would not help
        pending.attempts += 1
        pending.seq = seq
        pending.entry = pending.entry._replace(seq=seq, epoch=self.epoch, claim_id=self.claim_id)
        pending.value = encode(pending.entry)
        pending.offset = None

    # --- the end
    def fail(self, error: SeekpointError) -> None:
        """Close for ``error``; everyone who waits gets it."""
        self.close(error)
        while self.pending:
            self.pending.popleft().fail(error)

    def let_go(self) -> None:
        """Nobody looks after it any more: whoever still waits is told now, or would wait for ever."""
        if self.pending:
            self.fail(
                HandleClosed(
                    "the process was let go while entries were on their way: they may be in the log",
                    process_id=self.process_id, unacknowledged=len(self.pending),
                )
            )  # fmt: skip
        self.close()

    def close(self, error: SeekpointError | None = None) -> None:
        """Nothing more is sent. ``error`` is what later calls raise."""
        self.status = HandleStatus.CLOSED
        self.error = self.error or error
        self.mail_changed.set()


@dataclass(frozen=True, slots=True)
class Cause:
    """Who and what led to an entry."""

    actor: str | None = None
    caused_by: bytes | None = None
    correlation_id: str | None = None
