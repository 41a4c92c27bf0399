"""The appends of this node to one shared process, in rounds.

    waiting appends ──> a round: keep the claim, or claim ──> send all that fit ──> acknowledged ──> read back
                            ▲                                                                          │
                            └──── those that were fenced, and so are not applied, wait again ──────────┘

A round answers an append only by what it has read in the log. The rounds of one process follow one another. All appends
that wait take part in the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial

from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener
from seekpoint.producers.shared_writing.append_request import Appended, AppendRequest, append_conflict
from seekpoint.producers.shared_writing.shared_claim import SharedClaim
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.written_ids import WrittenIds
from seekpoint.schemas.errors import (
    ClaimLost,
    Fenced,
    HandleClosed,
    HandleLost,
    ProcessDegraded,
    Refused,
    SeekpointError,
)
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.values.clock import now_us

_BATCH_MAX = 1_000


class SharedAppends:
    """The appends of this node to one process."""

    def __init__(self, process_id: str, runtime: NodeRuntime, opener: Opener) -> None:
        self.process_id = process_id
        self.claim = SharedClaim(process_id, runtime, opener)
        self._runtime = runtime
        self._waiting: deque[AppendRequest] = deque()
        self._ids: WrittenIds | None = None
        """The ids in the log, once an append with an id of its caller's asked for them."""
        self.task: asyncio.Task[None] | None = None
        """Works on the appends. It ends when none waits."""

    def submit(self, request: AppendRequest) -> None:
        """Take an append. Its future gets the outcome."""
        self._waiting.append(request)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work(), name=f"seekpoint-append-{self.process_id}")

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way here."""
        is_at_work = self.task is not None and not self.task.done()
        return not (is_at_work or self.claim.readers or self.claim.lock.locked())

    @property
    def width(self) -> int:
        """About how many bytes of memory this takes."""
        return self.claim.width + (0 if self._ids is None else self._ids.width)

    async def let_go(self) -> None:
        """Drop the claim, once the round under way is over."""
        async with self.claim.lock:
            self.drop()

    def drop(self) -> None:
        """Drop the claim. Nobody may be at work here."""
        self.claim.drop()
        self._ids = None

    # --- rounds
    async def _work(self) -> None:
        try:
            while self._waiting:
                async with self.claim.lock:
                    await self._round()
        except asyncio.CancelledError:
            self._fail_waiting(_closed(self.process_id))
            raise
        except Exception as exc:  # each caller gets it, whatever it is: none of these appends was sent
            self._fail_waiting(exc)

    def _fail_waiting(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.fail(error)

    async def _round(self) -> None:
        """Answer at least one append that waits, or learn more of the log."""
        handle = self.claim.handle
        if handle is not None and handle.is_open and handle.unconfirmed is not None:
            # An entry in doubt may be what an append repeats, or what it did not expect.
            await self._runtime.confirmer.confirm(handle, handle.last_offset)
        if handle is None or not handle.is_open:
            handle = await self._claimed()
            if handle is None:
                return
        fresh = await self._answer_repeats(handle.peek(), handle.applied_seq, self.claim.read_to)
        batch = self._send(handle, fresh)
        if batch:
            await self._answer_sent(handle, batch)
        elif asked := set(map(id, self._waiting)):  # other seqs are expected than this node knows: the log tells
            await self.claim.to_end()
            if handle.is_open:
                self._answer_conflicts(handle.peek(), asked, fresh)

    async def _claimed(self) -> Handle | None:
        """Claim the process for the appends that wait. None if the next round has to decide."""
        claim, asked = self.claim, set(map(id, self._waiting))
        await claim.follow()
        position = await claim.to_end()
        draft = claim.followed()
        if draft is None:
            return None
        if not draft.finished:
            state = draft.snapshot()
            self._answer_conflicts(state, asked, await self._answer_repeats(state, state.seq, position))
        if not self._waiting or await claim.leave_turn():
            return None
        handle = await claim.claim()
        if handle is None:
            waiting, self._waiting = self._waiting, deque()
            self._wait_again(waiting)
        return handle

    def _send(self, handle: Handle, fresh: set[bytes]) -> list[AppendRequest]:
        """Send the appends that fit. The others wait. ``fresh`` has the callers' ids that no entry has."""
        waiting, self._waiting = self._waiting, deque()
        batch: list[AppendRequest] = []
        for request in waiting:
            if request.future.done():  # its caller was cancelled
                continue
            if len(batch) == _BATCH_MAX or not self._fits(request, handle, fresh):
                self._waiting.append(request)
                continue
            try:
                request.pending = handle.prepare(request.entry_id, now_us(), request.body, request.cause, None)
            except Refused as exc:
                request.fail(exc)
            except HandleLost:
                self._waiting.append(request)
            else:
                fresh.discard(request.entry_id)
                self._runtime.metrics.note_call(request.body)
                batch.append(request)
        for request in batch:
            assert request.pending is not None
            self._runtime.outbox.push(request.pending)
        return batch

    def _fits(self, request: AppendRequest, handle: Handle, fresh: set[bytes]) -> bool:
        is_new = not request.has_own_id or request.entry_id in fresh
        if request.expected_seq is None:
            return is_new
        # The process has not grown since the caller read it: an entry with the caller's id would have made it grow.
        return request.expected_seq == handle.ahead_seq and (is_new or self._ids is None)

    async def _answer_sent(self, handle: Handle, batch: Sequence[AppendRequest]) -> None:
        """Answer the appends that were sent, once they are read back. Those that are not applied for sure wait again.

        The handle knows of each entry whether it was applied. Once it is fenced, every other entry of it lies behind
        the newer claim in the log, or will lie there: no reader ever applies it.
        """
        error, is_read = None, False
        try:
            last = batch[-1].pending
            assert last is not None
            acknowledged = last.future = asyncio.get_running_loop().create_future()
            await self._runtime.confirmer.confirm(handle, await acknowledged)
            is_read = True
        except SeekpointError as exc:
            error = exc
        finally:
            self._settle(handle, batch, error, is_read=is_read)

    def _settle(
        self, handle: Handle, batch: Sequence[AppendRequest], error: SeekpointError | None, *, is_read: bool
    ) -> None:
        fenced: list[AppendRequest] = []
        for request in batch:
            pending = request.pending
            assert pending is not None
            if self._ids is not None and pending.offset is not None:
                self._ids.note(pending.entry, pending.offset)
            if pending.offset is not None and pending.seq <= handle.applied_seq:
                self.claim.lost_turns = 0
                request.resolve(Appended(pending.seq, pending.offset, request.entry_id))
            elif isinstance(handle.error, Fenced):
                fenced.append(request)
            else:
                request.fail(handle.error or error or _unapplied(self.process_id, is_read=is_read))
        self._wait_again(fenced)

    def _wait_again(self, requests: Collection[AppendRequest]) -> None:
        """Have ``requests``, of which nothing is applied, wait for the next round, before all others."""
        now, again = asyncio.get_running_loop().time(), list[AppendRequest]()
        for request in requests:
            request.pending = None
            if now < request.deadline:
                again.append(request)
            else:
                request.fail(_contended(self.process_id))
        if requests:
            self.claim.lost_turns += 1
        self._waiting.extendleft(reversed(again))

    # --- answers from the log alone
    async def _answer_repeats(self, draft: Draft, seq: int, position: int) -> set[bytes]:
        """Answer the appends that repeat an entry: the process is at ``seq``, by what the log has below ``position``.

        Return the ids of the other appends that were asked for: no entry has them.
        """
        asked = [one for one in self._waiting if one.has_own_id and (self._ids or one.expected_seq != seq)]
        if not asked:
            return set()
        if self._ids is None:
            start = position if draft.first_offset is None else draft.first_offset
            self._ids = WrittenIds(self.claim.key, self.claim.partition, start)
        if self._ids.read_to < position:
            await self._runtime.in_thread(partial(self._ids.read, self._runtime.reader, position))
        fresh = set[bytes]()
        for request in asked:
            found = self._ids.find(request.entry_id, seq)
            if found is None:
                fresh.add(request.entry_id)
            else:
                request.resolve(Appended(*found, request.entry_id, is_repeated=True))
        return fresh

    def _answer_conflicts(self, draft: Draft, asked: Collection[int], fresh: Collection[bytes]) -> None:
        """Answer the appends that expect another seq than the process has, which was read to the end of the log.

        Only those in ``asked`` waited before that end was asked for: to a later one, an older state is no answer.
        An append may expect what those that wait before it lead to. If one of them takes the seq that it expects, it
        waits until that one is written: the error carries the state with that entry.
        """
        state, seq = None, draft.seq
        for request in self._waiting:
            expected = request.expected_seq
            may_repeat = request.has_own_id and request.entry_id not in fresh
            if request.future.done():
                continue
            if expected is None or expected == seq:
                seq += 1
            elif expected != draft.seq and id(request) in asked and not may_repeat:
                state = state or draft.snapshot()
                request.fail(append_conflict(self.process_id, expected, state))
        self._waiting = deque(request for request in self._waiting if not request.future.done())


def _contended(process_id: str) -> ClaimLost:
    return ClaimLost(
        "other nodes claimed the process each time before this node could write", process_id=process_id,
        hint="nothing was written: try again later",
    )  # fmt: skip


def _unapplied(process_id: str, *, is_read: bool) -> SeekpointError:
    """Return the error of an append that is not applied: the log was read behind it, or the node was closed before."""
    if is_read:
        return ProcessDegraded("the entry does not fit the process any more", process_id=process_id)
    return _closed(process_id)


def _closed(process_id: str) -> HandleClosed:
    return HandleClosed(
        "the node was closed while the append was under way: the entry may be in the log", process_id=process_id,
        hint="repeat the append on an open node, with the same entry_id if it had one",
    )  # fmt: skip
