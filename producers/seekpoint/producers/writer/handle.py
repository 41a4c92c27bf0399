"""The owner's side of one process: the entries that were sent, acknowledged and confirmed. Pure: no I/O, no clock.

    base   the confirmed fold of everything in the partition below ``position``, as any reader computes it
    acked  own entries acknowledged since, in log order
    ahead  base + acked + pending entries; the next entry is checked against it

A handle is used from one event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from seekpoint.consumers.log_reading.scan import entry_of
from seekpoint.producers.writer.identity import Identity
from seekpoint.producers.writer.pending import Cause, HandleStatus, Pending
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id, process_key
from seekpoint.schemas.errors import (
    Fenced,
    HandleClosed,
    IllegalCall,
    IllegalTransition,
    JournalFull,
    LimitExceeded,
    LogTruncated,
    ProcessDegraded,
    Refused,
    SeekpointError,
    UndecodableRecord,
)
from seekpoint.schemas.folding.fold import Verdict, advance, try_apply
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.budget_sums import Budget
from seekpoint.schemas.state.calls import times_forgotten
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, MailItem, State
from seekpoint.schemas.state.state_parts import Attachment
from seekpoint.schemas.wire.codec import encode, encode_within, is_entry

ATTEMPTS_MAX = 3
"""How often one entry is sent while the broker refuses it; the handle heals in between."""

_COUNTED = frozenset({Verdict.APPLIED, Verdict.MISFIT})
"""The verdicts by which an owner's entry takes its seq."""

_REFUSALS: dict[str, type[Refused]] = {
    "state_limit": LimitExceeded, "attachment_limit": LimitExceeded, "illegal_call": IllegalCall,
    "illegal_attachment": IllegalCall,
}  # fmt: skip
"""The error that each kind of misfit raises; any other kind raises ``IllegalTransition``."""


class Handle:
    """One open process. Its agent sees ``state``: the confirmed fold plus its own acknowledged entries."""

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
        """Whether a release or a finish was sent: no entry may follow it."""
        self.ended = False
        """Whether the release or finish is confirmed; a later claim fences nobody."""
        self.healing_claims: set[bytes] = set()
        self.claimed_seq = state.seq
        """The seq of the newest entry of the former owners that is applied."""
        self.applied_seq = state.seq
        """The seq of the newest entry of this handle that was read back and is applied."""
        self._reader = reader
        self.limits = reader.limits
        self._base = state.thaw()
        self._ahead = state.thaw()
        self._acked: dict[int, Entry] = {}
        self._acknowledged_draft: Draft | None = None
        self._snapshot: State | None = None

    # --- what the agent sees
    @property
    def state(self) -> State:
        """The confirmed fold plus the acknowledged entries, frozen."""
        if self._snapshot is None:
            if self.pending:
                self._snapshot = self._acknowledged().snapshot()
            else:
                self._ahead.offset = max(self._ahead.offset, self.last_offset)
                self._snapshot = self._ahead.snapshot()
        return self._snapshot

    @property
    def mail(self) -> list[MailItem]:
        """The items in the mailbox, oldest first, without those that a pending entry receives: each is taken once."""
        return list(self._ahead.mailbox.values())

    def _acknowledged(self) -> Draft:
        """Return the state without the pending entries. The draft is cached: the next call folds only newer entries."""
        if self._acknowledged_draft is None:
            self._acknowledged_draft = self._base.snapshot().thaw()
        fresh: list[tuple[int, Entry]] = []
        for offset in reversed(self._acked):
            if offset <= self._acknowledged_draft.offset:
                break
            fresh.append((offset, self._acked[offset]))
        for offset, entry in reversed(fresh):
            advance(self._acknowledged_draft, offset, entry, self.limits)
        return self._acknowledged_draft

    def peek(self) -> Draft:
        """Return the confirmed fold as it is now, which is not to be changed or kept."""
        return self._base

    @property
    def ahead_seq(self) -> int:
        """The seq of the newest entry that was sent."""
        return self._ahead.seq

    def has_room(self, width: int) -> bool:
        """Return whether the state, with all entries that were sent, has room for ``width`` bytes more."""
        return self._ahead.content_bytes + width <= self.limits.state_bytes

    def times_forgotten(self, key: str) -> int:
        """Return how often a rewind forgot the call ``key``. Takes no snapshot: each call asks."""
        return times_forgotten(self._ahead.forgotten, key)

    def ahead_attachment(self, digest: str) -> Attachment | None:
        """Return an attachment with all parts that were sent; None if there is none."""
        return self._ahead.attachments.get(digest)

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle that the next entry is checked against."""
        return self._ahead.lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget that the next entry is checked against, with all reservations of calls under way."""
        return self._ahead.budget

    @property
    def acknowledged_seq(self) -> int:
        """The highest seq that was acknowledged together with all lower ones."""
        return self.pending[0].seq - 1 if self.pending else self._ahead.seq

    @property
    def unconfirmed(self) -> int | None:
        """The offset of the newest acknowledged entry that is not confirmed; None if all are."""
        return next(reversed(self._acked), None)

    def awaits(self, offset: int) -> bool:
        """Return whether the entry at ``offset`` is acknowledged and not confirmed.

        If the offset is below ``position``, the log has lost its end: ``absorb`` says so.
        """
        return offset in self._acked

    # --- sending
    def prepare(
        self, entry_id: bytes, ts: int, body: b.Body, cause: Cause, future: asyncio.Future[int] | None
    ) -> Pending:
        """Check ``body`` against everything sent so far, give it its seq, encode it.

        Raises ``IllegalTransition``, ``IllegalCall`` or ``LimitExceeded`` (nothing changes then), or the error that
        closed the handle.
        """
        self.check_open()
        seq = self._ahead.seq + 1
        # The size is checked first: an oversized entry must not change the state.
        entry = Entry(
            entry_id, self.process_id, seq, self.epoch, self.claim_id, self.last_offset, ts, cause.actor,
            cause.caused_by, cause.correlation_id, body,
        )  # fmt: skip
        value = encode_within(entry, self.key, self.limits)
        ahead, before_us = self._ahead, self._ahead.updated_us
        ahead.updated_us = ts
        misfit = try_apply(ahead, seq, body, self.limits)
        if misfit is not None:
            ahead.updated_us = before_us
            raise self._refusal(misfit)
        pending = Pending(self, seq, entry, value, future)
        self.pending.append(pending)
        return pending

    @property
    def is_open(self) -> bool:
        """Return False once nothing more may be sent or confirmed."""
        return self.status is not HandleStatus.CLOSED

    def check_open(self) -> None:
        """Raise the reason why nothing more may be sent, if there is one."""
        if self.status is HandleStatus.CLOSED:
            raise self.error or HandleClosed("the process was released by this handle", process_id=self.process_id)
        if self.ending:
            raise HandleClosed("the process is being released by this handle", process_id=self.process_id)

    def _refusal(self, misfit: tuple[str, str]) -> SeekpointError:
        reason, detail = misfit
        return _REFUSALS.get(reason, IllegalTransition)(detail, process_id=self.process_id, seq=self._ahead.seq)

    # --- acknowledgements (O3: the agent learns of one only after those of all lower seqs)
    def acknowledge(self, pending: Pending, offset: int) -> None:
        """Note that ``pending`` is in the log at ``offset``; resolve it, and those that waited behind it."""
        pending.offset = offset
        while self.pending and self.pending[0].offset is not None:
            done = self.pending.popleft()
            assert done.offset is not None
            self._acked[done.offset] = done.entry
            self.last_offset = done.offset
            self._snapshot = None
            done.resolve(done.offset)

    # --- confirmation (O4)
    def absorb(self, records: Iterable[Record], position: int) -> None:
        """Fold the partition's records of this process in [self.position, ``position``) into the confirmed state.

        Afterwards either every own acknowledged entry below ``position`` is confirmed, or the handle is fenced
        (``status`` CLOSED). Raises ``LogTruncated`` if an acknowledged entry is not at its offset.
        """
        foreign, before = False, self.position
        for record in records:
            if record.offset < self.position:
                continue
            own = self._acked.get(record.offset)
            if own is not None and is_entry(record.value, own.id):
                self._absorb_own(record.offset, own)
            else:
                foreign = self._absorb_other(record) or foreign
        self.position = max(self.position, position)
        self._settle(foreign, before)

    def _absorb_own(self, offset: int, entry: Entry) -> None:
        verdict = advance(self._base, offset, entry, self.limits)
        self.fenced_entries += verdict is Verdict.STALE
        self._note(verdict, entry)

    def _note(self, verdict: Verdict, entry: Entry) -> None:
        """Take note of an entry of this handle that was read back."""
        if verdict is Verdict.APPLIED and entry.seq is not None:
            self.applied_seq = entry.seq
            self.ended = self.ended or isinstance(entry.body, b.Released | b.Finished)

    def _absorb_other(self, record: Record) -> bool:
        """Fold a record that is no acknowledged entry: external, a former owner's, poison, or a pending own one.

        Return whether the own entries have to be folded again onto the confirmed state.
        """
        if self.pending and record.value == self.pending[0].value:
            entry = self.pending[0].entry  # read back before its acknowledgement came
        else:
            try:
                entry = entry_of(record, self._reader.codec, self._reader.partitions)
            except UndecodableRecord:
                return False  # the projector of the partition makes a dead letter of it
        verdict = advance(self._base, record.offset, entry, self.limits)
        return not (verdict in _COUNTED and self._landed(verdict, entry, record.offset))

    def _landed(self, verdict: Verdict, entry: Entry, offset: int) -> bool:
        """Return whether ``entry`` is the next pending one; acknowledge it then, as it was read from the log."""
        pending = self.pending[0] if self.pending else None
        if pending is None or pending.entry.id != entry.id or entry.claim_id != self.claim_id:
            return False
        self._note(verdict, entry)
        if self.status is HandleStatus.HEALING and isinstance(entry.body, b.Released):
            pending.offset = offset  # the healing claim may land behind the release, which is then sent again
        else:
            self.acknowledge(pending, offset)
        return True

    def _settle(self, foreign: bool, before: int) -> None:
        below = [offset for offset in self._acked if offset < self.position]
        owns = self.ended or self._base.owner == self.claim_id or self._base.owner in self.healing_claims
        if owns:
            self._check_applied(below, before)
        if below:
            self._acknowledged_draft = None  # it may lack these entries, which are dropped below
        for offset in below:
            del self._acked[offset]
        if not owns:
            self.fail(self._fenced())
        elif foreign:
            self._rebuild()

    def _check_applied(self, below: list[int], before: int) -> None:
        """Raise unless every acknowledged entry below the position is applied: the owner has not changed.

        What lies below ``before`` was acknowledged at an offset where other records had been read.
        """
        seq = self._acked[below[-1]].seq if below else None
        if seq is None or seq <= self._base.seq:
            return
        process_id, partition, offset = self.process_id, self.partition, below[-1]
        if self._base.degraded is not None and below[0] >= before:
            raise ProcessDegraded(
                "acknowledged entries lie behind a gap", expected_seq=self._base.seq + 1,
                process_id=process_id, partition=partition, offset=offset,
            )  # fmt: skip
        message = "an acknowledged entry is no longer where it was"
        raise LogTruncated(message, seq=seq, process_id=process_id, partition=partition, offset=offset)

    def _fenced(self) -> Fenced:
        self.fenced_entries += len(self._acked)
        return Fenced(
            "another owner has claimed the process",
            process_id=self.process_id, epoch=self.epoch, new_epoch=self._base.epoch, new_node=self._base.owner_node,
            fenced_entries=self.fenced_entries,
        )  # fmt: skip

    def _rebuild(self) -> None:
        """Fold the own entries again onto the confirmed state, which other entries have changed."""
        self._ahead = self._base.snapshot().thaw()
        for offset, entry in self._acked.items():
            advance(self._ahead, offset, entry, self.limits)
        for pending in self.pending:
            self._ahead.updated_us = pending.entry.ts
            try_apply(self._ahead, pending.seq, pending.entry.body, self.limits)
        self._snapshot = self._acknowledged_draft = None
        self.mail_changed.set()

    # --- healing (O5)
    def begin_healing(self) -> None:
        """Keep the entries that are handed over from now on, until the process is claimed again."""
        self.status = HandleStatus.HEALING

    def healing_claim(self, identity: Identity) -> Entry:
        """Return a new claim on the process by the node ``identity``. The fold accepts it if no other claim came first.

        It abandons what was never acknowledged, so that a gap there does not degrade the process.
        """
        claim = b.Claim(
            expected_epoch=self.epoch,
            node_id=identity.node_id,
            boot_id=identity.boot_id,
            old_claim_id=self.claim_id,
            abandon_from_seq=self.acknowledged_seq + 1,
        )
        claim_id = new_id()
        self.healing_claims.add(claim_id)
        return Entry(claim_id, self.process_id, None, 0, None, self.last_offset, 0, None, None, None, claim)

    def heal(self) -> list[Pending]:
        """Return the entries to send again, renumbered under the new epoch, once ``absorb`` has read the healing claim.

        Entries that landed after all were acknowledged when they were read. Raises ``ProcessDegraded`` if the claim
        was refused, ``LogTruncated`` if fewer entries landed than were acknowledged.
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
        """Acknowledge the release or finish, which landed before the healing claim: nothing is left to heal."""
        self.status = HandleStatus.OPEN
        for pending in list(self.pending):
            assert pending.offset is not None
            self.acknowledge(pending, pending.offset)
        return []

    def _renumber(self, pending: Pending, seq: int) -> None:
        if not isinstance(pending.failure, JournalFull):  # which says nothing of the entry: it waits for room
            if pending.attempts >= ATTEMPTS_MAX and pending.failure is not None:
                raise pending.failure  # the broker refuses this very entry: another claim would not help
            pending.attempts += 1
        pending.seq = seq
        pending.entry = pending.entry._replace(seq=seq, epoch=self.epoch, claim_id=self.claim_id)
        pending.value = encode(pending.entry)
        pending.offset = None

    # --- the end
    def fail(self, error: SeekpointError) -> None:
        """Close for ``error``, and raise it in every caller that waits."""
        self.close(error)
        while self.pending:
            self.pending.popleft().fail(error)

    def abandon(self) -> None:
        """Close the handle without a release. Callers that still wait get ``HandleClosed``."""
        if self.pending:
            self.fail(
                HandleClosed(
                    "the process was let go while entries were on their way: they may be in the log",
                    process_id=self.process_id, unacknowledged=len(self.pending),
                )
            )  # fmt: skip
        self.close()

    def close(self, error: SeekpointError | None = None) -> None:
        """Send nothing more. Later calls raise ``error``."""
        self.status = HandleStatus.CLOSED
        self.error = self.error or error
        self.mail_changed.set()
