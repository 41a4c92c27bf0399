"""The claim of one shared process on this node, and the process's state while another node has the claim.

While this node holds the claim, its handle follows the process. When another node takes the claim, the handle is
fenced, and a ``Replica`` follows the process from there: so the next claim of this node needs no recovery.
"""

from __future__ import annotations

import asyncio
from functools import partial

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener, OpenRequest
from seekpoint.producers.tail.followed_values import FollowedValue, recover_followed
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.pending import Cause, HandleStatus
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import (
    AlreadyOpen,
    ClaimLost,
    ConfirmTimeout,
    Fenced,
    Refused,
    SeekpointError,
)
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.log_ports import LogReader, Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft, State


class Replica(FollowedValue):
    """A followed process that another node has claimed. It knows whether that claim was used: its owner has written."""

    def __init__(self, process_id: str, reader: LogReader, unused_since_seq: int | None = None) -> None:
        super().__init__(process_id, reader)
        self._claim_seq = unused_since_seq
        """The process's seq at the newest claim; None if it is not known."""
        self.claimed_at = asyncio.get_running_loop().time()
        """When this node learned of that claim."""
        self.changed = asyncio.Event()
        """Set at each record of the process."""

    @property
    def is_claim_unused(self) -> bool:
        """Whether a node has claimed the process, and has not written yet, as far as this node knows."""
        draft = self.peek()
        return draft is not None and draft.owner is not None and draft.seq == self._claim_seq

    def is_owned_by(self, boot_id: str) -> bool:
        """Whether a claim of the node's boot ``boot_id`` is the newest one."""
        draft = self.peek()
        return draft is not None and draft.owner_boot == boot_id

    def _fold(self, draft: Draft, record: Record) -> None:
        for _, entry in entries_of([record], self._reader):
            if advance(draft, record.offset, entry, self._reader.limits) is Verdict.CLAIM_WON:
                self._claim_seq, self.claimed_at = draft.seq, asyncio.get_running_loop().time()
        self.changed.set()


_TURN_MIN_S, _TURN_MAX_S, _TURN_CLAIMS = 0.02, 1.0, 4
"""How long another node may take to write after its claim, before this node claims too: so many of this node's own
claims, within bounds. It doubles with each turn that this node lost."""
_DOUBLINGS_MAX = 6


class SharedClaim:
    """One shared process on this node. ``lock`` is held by whoever changes what follows it."""

    def __init__(self, process_id: str, runtime: NodeRuntime, opener: Opener) -> None:
        self.process_id = process_id
        self.key = process_key(process_id)
        self.partition = partition_of(self.key, runtime.reader.partitions)
        self.lock = asyncio.Lock()
        self.handle: Handle | None = None
        """The handle of the newest claim. It may be closed: then another node has claimed the process."""
        self.read_to = 0
        """The offset up to which the log was read when this node last claimed."""
        self.lost_turns = 0
        """How many claims in a row were lost, or fenced before they wrote."""
        self.readers = 0
        """How many callers read the process now."""
        self._runtime = runtime
        self._opener = opener
        self._replica: Replica | None = None
        self._tail: PartitionTail | None = None
        self._claim_s = 0.0
        """How long a claim takes, lately."""

    # --- who follows the process
    def followed(self) -> Draft | None:
        """Return the process as of the tail's position, not to be changed or kept; None if nothing follows it."""
        if self._tail is None or self._tail is not self._runtime.tailer.tail(self.partition):
            return None
        handle = self.handle
        if handle is not None and (handle.is_open or isinstance(handle.error, Fenced)):
            return handle.peek()
        return None if self._replica is None else self._replica.peek()

    async def follow(self) -> None:
        """Recover the process and follow it, unless it is followed. Call it with the lock held."""
        if self.handle is not None and not self.handle.is_open:
            self.stop_holding(self.handle)
        try:
            if self.followed() is not None:
                return
        except SeekpointError:
            self._drop_replica()  # the next call starts anew
            raise
        self._drop_replica()
        runtime = self._runtime
        replica = Replica(self.process_id, runtime.reader)
        try:
            tail, state = await recover_followed(
                replica, runtime.reader, runtime.recovery, runtime.tailer, must_be_current=True
            )
        except BaseException:
            runtime.tailer.detach(replica, self.partition)
            raise
        self._tail = replica.tail = tail
        self._replica = replica
        replica.begin(state)

    def stop_holding(self, handle: Handle) -> None:
        """Go on as a replica from what a fenced handle knows. A handle that failed otherwise knows nothing for sure."""
        tail, self.handle = self._tail, None
        is_current = (
            isinstance(handle.error, Fenced) and tail is not None and tail is self._runtime.tailer.tail(self.partition)
            and tail.error is None and tail.listeners.get(self.key) is handle
        )  # fmt: skip
        if is_current and tail is not None:
            self._replica = Replica(self.process_id, self._runtime.reader, unused_since_seq=handle.applied_seq)
            self._replica.tail = tail
            tail.attach_follower(self._replica)
            self._replica.begin(handle.peek().snapshot())
        self._runtime.forget(handle)

    def _drop_replica(self) -> None:
        if self._replica is not None:
            self._runtime.tailer.detach(self._replica, self.partition)
            self._replica = None

    def drop(self) -> None:
        """Drop claim and replica; nobody may be at work. The claim needs no release: any node may take it over."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.abandon()
            self._runtime.forget(handle)
        self._drop_replica()

    # --- reading
    async def to_end(self) -> int:
        """Return once all that is in the partition now was read; return the offset up to which it was."""
        runtime, tail = self._runtime, self._tail
        assert tail is not None
        end = was_read = tail.position
        try:
            async with asyncio.timeout(runtime.settings.confirm_timeout_s):
                end = await runtime.reads.end_of(self.partition)
                if end < was_read:
                    await runtime.tailer.check_end(tail)
                await runtime.tailer.wait_for(tail, end)
        except TimeoutError as exc:
            raise await runtime.confirmer.why_late(self.partition, end) or ConfirmTimeout(
                "the partition could not be read in time", partition=self.partition, offset=end - 1,
                process_id=self.process_id,
            ) from exc  # fmt: skip
        return tail.position

    async def read(self) -> State:
        """Return the state with every entry that was applied when this was called. It has no entry in doubt."""
        self.readers += 1
        try:
            while True:
                if self.followed() is None:
                    async with self.lock:
                        await self.follow()
                await self.to_end()
                draft = self.followed()
                if draft is not None:  # else this node has let it go meanwhile
                    return draft.snapshot()
        finally:
            self.readers -= 1

    @property
    def width(self) -> int:
        """About how many bytes of memory the state takes."""
        try:
            draft = self.followed()
        except SeekpointError:
            return 0
        return 0 if draft is None else draft.content_bytes

    # --- claiming
    async def leave_turn(self) -> bool:
        """Wait for a moment if another node has just claimed the process and has not written yet.

        Without that, nodes that write to one process at once would fence each other, and none would get on. Return
        whether something has changed meanwhile.
        """
        replica, tail = self._replica, self._tail
        if replica is None or tail is None or not replica.is_claim_unused:
            return False
        turn_s = min(
            _TURN_MAX_S, max(_TURN_MIN_S, _TURN_CLAIMS * self._claim_s) * 2 ** min(self.lost_turns, _DOUBLINGS_MAX)
        )
        left_s = replica.claimed_at + turn_s - asyncio.get_running_loop().time()
        if left_s <= 0 or replica.is_owned_by(self._runtime.identity.boot_id):
            return False
        replica.changed.clear()
        self._runtime.tailer.watch(tail, 1)
        try:
            async with asyncio.timeout(left_s):
                await replica.changed.wait()
        except TimeoutError:
            return False
        finally:
            self._runtime.tailer.watch(tail, -1)
        return True

    async def claim(self) -> Handle | None:
        """Claim the followed process; None if another claim came first. Raises why it may not be claimed."""
        self._refuse_own_owner()
        replica, tail, clock = self._replica, self._tail, asyncio.get_running_loop().time
        assert replica is not None
        began = clock()
        request = OpenRequest(
            process_id=self.process_id, cause=Cause(), is_shared=True, refuse=partial(_refuse_agent, self.process_id),
            known=lambda listened: replica.state() if listened is tail else None,
        )  # fmt: skip
        try:
            handle, _ = await self._opener.claim(request)
        except ClaimLost:
            return None
        took_s = clock() - began
        self._claim_s = took_s if self._claim_s == 0 else 0.7 * self._claim_s + 0.3 * took_s
        self.handle = self._runtime.shared_handles[self.process_id] = handle
        self.read_to = handle.position
        self._tail = self._runtime.confirmer.tail_of(handle)
        self._drop_replica()
        return handle

    def _refuse_own_owner(self) -> None:
        """Raise ``AlreadyOpen`` if this node has the process open for one owner."""
        handles = self._runtime.handles
        handle = handles.get(self.process_id)
        if self.process_id in handles and (handle is None or handle.status is not HandleStatus.CLOSED):
            raise AlreadyOpen(
                "the process is open on this node, for one owner", process_id=self.process_id,
                hint="write through the process that is open, or leave its `async with` first",
            )  # fmt: skip


def _refuse_agent(process_id: str, state: State) -> None:
    """Raise ``Refused`` for a process as which an agent runs: its writes are calls of its code."""
    if state.run_identity is not None:
        raise Refused(
            "an agent runs as the process: only its code writes to it", process_id=process_id,
            agent=state.run_identity[0], hint="tell it something with node.signal, or use another id",
        )  # fmt: skip
