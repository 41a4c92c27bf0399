"""What a worker knows of the unfinished processes of one partition: who owns them, and what they wait for.

It follows the partition's tail and decides nothing: the worker recovers a process before it acts. So what stands here
may be wrong for a moment, and costs then one look too many. Of a process that begins while it watches it has the state,
so that a new run begins without a recovery. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from seekpoint.consumers.log_reading.scan import EntrySource, entry_of
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.worker.assessment import Assessment, Next
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, process_key
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX, advance
from seekpoint.schemas.log.tail import TailBatch
from seekpoint.schemas.state.process_state import Draft, State

_NEVER = 1 << 63


class Owner(NamedTuple):
    """The owner of a process, as its claim names it."""

    node_id: str
    boot_id: str
    claim_id: bytes


class PartitionWatch:
    """The unfinished processes of one partition. An observer of the partition's tail."""

    def __init__(
        self,
        partition: int,
        reader: EntrySource,
        boot_id: str,
        on_change: Callable[[], None],
        on_suspended: Callable[[str], None],
    ) -> None:
        self.partition = partition
        self.owned: dict[str, Owner] = {}
        """The processes that other nodes own."""
        self.waiting: dict[str, Assessment] = {}
        """The processes that nobody owns and that wait."""
        self.left: dict[str, Assessment] = {}
        """The processes that are left alone, with the reason."""
        self.parents: dict[str, Assessment] = {}
        """Those of them that wait for the end of children."""
        self.changed_parents: set[str] = set()
        """The processes that began to wait for children, or ceased to, since somebody took note of it."""
        self.stale: dict[str, int] = {}
        """The processes to recover and to assess, with the offset of the entry that came; -1 for another reason."""
        self.error: SeekpointError | None = None
        self.loaded_end: int | None = None
        """The partition's end when its unfinished processes were assessed; None before that."""
        self._soonest_us = _NEVER
        """No process waits for an earlier moment. Ten thousand of them are not looked at each time."""
        self._mail_at: dict[str, int] = {}
        """The offset of the newest external entry of each process that runs here."""
        self._keys_here: set[bytes] = set()
        """The keys of these processes."""
        self._fresh: dict[str, Draft] = {}
        """The states of processes that began while this watches, and that nobody has claimed."""
        self._reader = reader
        self.tail: PartitionTail | None = None
        """The tail that this observes."""
        self._boot_id = boot_id
        self._on_change = on_change
        self._on_suspended = on_suspended

    @property
    def is_caught_up(self) -> bool:
        """Whether every unfinished process is assessed, and the tail has passed the end of that moment."""
        return self.loaded_end is not None and self.tail is not None and self.tail.position >= self.loaded_end

    # --- what is known
    def begin(self, process_id: str) -> None:
        """Note that the process runs here from now on."""
        self._drop(process_id)
        self._mail_at[process_id] = -1
        self._keys_here.add(process_key(process_id))

    def end(self, process_id: str) -> int:
        """Note that the process does not run here any more; return the offset of its newest external entry, or -1."""
        self._keys_here.discard(process_key(process_id))
        return self._mail_at.pop(process_id, -1)

    def runs_here(self, process_id: str) -> bool:
        """Whether the process runs here."""
        return process_id in self._mail_at

    def state_of(self, process_id: str) -> State | None:
        """Return the state of a new process as of the tail's position; None if it is not known here."""
        draft = self._fresh.get(process_id)
        return None if draft is None else draft.snapshot()

    def is_outdated(self, process_id: str, state: State) -> bool:
        """Whether something came for a process after the entry that ``state`` is as of, and is not looked at yet."""
        return self.stale.get(process_id, -1) > state.offset

    def file(self, process_id: str, assessment: Assessment) -> None:
        """Note the assessment of a process that nobody owns."""
        self._drop(process_id)
        if assessment.next is Next.WAIT:
            self.waiting[process_id] = assessment
            if assessment.due_us is not None:
                self._soonest_us = min(self._soonest_us, assessment.due_us)
            if assessment.children:
                self.parents[process_id] = assessment
                self.changed_parents.add(process_id)
        elif assessment.next is Next.LEAVE:
            self.left[process_id] = assessment

    def set_owner(self, process_id: str, owner: Owner) -> None:
        """Note the owner of a process."""
        self._drop(process_id)
        self.owned[process_id] = owner

    def due(self, now_us: int) -> list[str]:
        """Return the processes whose moment has come."""
        if now_us < self._soonest_us:
            return []
        moments = {one: waits.due_us for one, waits in self.waiting.items() if waits.due_us is not None}
        self._soonest_us = min(moments.values(), default=_NEVER)
        return [one for one, due_us in moments.items() if due_us <= now_us]

    def _drop(self, process_id: str) -> None:
        for table in (self.owned, self.waiting, self.left, self.stale):
            table.pop(process_id, None)
        if self.parents.pop(process_id, None) is not None:
            self.changed_parents.add(process_id)

    # --- the tail
    def observe(self, batch: TailBatch) -> None:
        """Take note of what came."""
        seen: set[bytes | None] = set()
        here, is_owner_entry = self._keys_here, self._reader.codec.is_owner_entry
        for index, key in enumerate(batch.keys):
            record, is_first = batch.record(index), key not in seen
            seen.add(key)
            if key in here and key is not None and is_owner_entry(record.value, key):
                continue  # by the run that is here, or of no effect
            try:
                entry = entry_of(record, self._reader.codec, self._reader.partitions)
            except SeekpointError:
                continue  # poison, which the projector makes a dead letter of; or a format that recovery stops at
            self._fold(key, entry, record.offset, is_first)
            self._note(entry, record.offset)
        if self.stale:
            self._on_change()

    def fail(self, error: SeekpointError) -> None:
        """Take note that the partition cannot be followed: the worker assigns it to itself anew."""
        self.error = error
        self._on_change()

    def _fold(self, key: bytes | None, entry: Entry, offset: int, is_first: bool) -> None:
        """Fold the entries of a process that begins with a submission, up to its first claim.

        ``is_first``: no earlier record of the batch, which the proof of absence does not know yet, has the key.
        """
        process_id = entry.process_id
        draft = self._fresh.get(process_id)
        if draft is None:
            if not (is_first and isinstance(entry.body, b.Submitted) and self._is_absent(key)):
                return
            draft = self._fresh[process_id] = Draft()
        advance(draft, offset, entry, self._reader.limits)
        if draft.epoch:
            del self._fresh[process_id]

    def _is_absent(self, key: bytes | None) -> bool:
        tail = self.tail
        return tail is not None and key is not None and tail.absence.report(key, tail.position) is not None

    def _note(self, entry: Entry, offset: int) -> None:
        process_id, body = entry.process_id, entry.body
        if process_id.startswith(SHARED_PREFIX):
            return
        if process_id in self._mail_at:
            if entry.seq is None and not isinstance(body, b.Claim):
                self._mail_at[process_id] = offset
                if isinstance(body, b.SuspendRequested):
                    self._on_suspended(process_id)
        elif isinstance(body, b.Claim):
            if body.boot_id != self._boot_id:
                self.set_owner(process_id, Owner(body.node_id, body.boot_id, entry.id))
        elif isinstance(body, b.Finished):
            self._drop(process_id)
        elif isinstance(body, b.Released):
            self.owned.pop(process_id, None)
            self.stale[process_id] = offset
        elif entry.seq is None and process_id not in self.owned:
            self.stale[process_id] = offset
