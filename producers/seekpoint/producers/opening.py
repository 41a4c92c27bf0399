"""Opening a process (rules O2 and O6): recover it, claim it, read the log through the claim, and only then act.

The first claim in the log wins; the fold tells which one that was. A node acts on a claim once it has read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from types import TracebackType
from typing import Any

from seekpoint.consumers.heartbeats.liveness import LivenessVerdict as Looks
from seekpoint.consumers.recovery.recovery_report import Recovered, Report
from seekpoint.producers.claims.claim_watch import ClaimWatch
from seekpoint.producers.durable.content.content_calls import error_entry
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.replay.conduct import PLAIN, RunOptions
from seekpoint.producers.durable.session import Session
from seekpoint.producers.durable.waits.shared_values import check_ownable
from seekpoint.producers.log_session import LogSession
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.process import Process, ProcessNode, durable_side
from seekpoint.producers.tail.followed_recovery import FollowedRecovery, recover_and_follow
from seekpoint.producers.tail.partition_tail import PartitionTail
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.pending import Cause, HandleStatus
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    AlreadyOpen,
    Cancelled,
    ClaimLost,
    HandleLost,
    JournalUnavailable,
    ObligationStuck,
    OwnerAlive,
    ProcessDegraded,
    ProcessFinished,
    ProcessSuspended,
    Refused,
    Retryable,
)
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.wire.codec import encode_within

_LOOK_AGAIN_S = 0.25


class OpenRequest(FrozenStruct, frozen=True, kw_only=True):
    """The options with which a process is opened."""

    process_id: str
    cause: Cause
    take_over: bool = False
    accept_degraded: bool = False
    wait_s: float = 0.0
    inherit: Callable[[], Awaitable[b.Forked]] | None = None
    """Returns the entry that a fork begins with, before its id is claimed: that entry uses up the id."""
    options: RunOptions = PLAIN
    refuse: Callable[[State], None] | None = None
    """Raises an error to refuse the recovered state, before the process is claimed."""
    must_exist: bool = False
    """Whether the process must exist: then the open recovers it, and never presumes that it does not exist."""
    is_shared: bool = False
    """Whether any node may claim the process from this one as soon as it wants to write: no heartbeat names the claim.
    A claim that is lost is not tried again."""
    known: Callable[[PartitionTail], State | None] | None = None
    """Returns the state as of the tail's position, if it was folded from this tail: then no recovery is needed."""


def wait_for_death_s(settings: Settings) -> float:
    """Return how long to wait for a process until an owner that was killed on another host is known to be dead."""
    return settings.owner_timeout_s + 2 * settings.heartbeat_interval_s + 1


class Opening:
    """A process about to be opened: ``async with`` it (leaving releases), or ``await`` it and release it yourself."""

    def __init__(self, opener: Opener, request: OpenRequest) -> None:
        self._opener = opener
        self._request = request
        self._process: Process | None = None

    def __await__(self) -> Generator[Any, None, Process]:
        return self._opener.open(self._request).__await__()

    async def __aenter__(self) -> Process:
        self._process = await self._opener.open(self._request)
        return self._process

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the exception, if there is one, then release. Only forget a process that is not open any more."""
        process = self._process
        assert process is not None
        try:
            if process.is_open:
                durable = durable_side(process)
                owed = await _ended(durable, error)
                await durable.release_children()
                await process.release()
                if owed is not None:
                    raise owed from error
            elif error is None:
                durable_side(process).session.check()  # fenced after its last call: the caller must learn of it
        except (HandleLost, Retryable):
            if error is None:
                raise
            # The agent's own exception tells more than the error that kept it from being recorded.
        finally:
            durable_side(process).abandon()


async def _ended(process: DurableProcess, error: BaseException | None) -> ObligationStuck | None:
    """Record ``error``; stop a process that accepted its cancellation. Return the error of a stuck obligation."""
    if error is None:
        return None
    from seekpoint.producers.durable.failures.recorded_failures import unwrapped

    error = unwrapped(error)
    if isinstance(error, Cancelled) and process.cancellation.is_accepted:
        from seekpoint.producers.durable.effects.stopping import stop

        try:
            await stop(process)
        except ObligationStuck as owed:
            await process.write(error_entry(process, owed, None, None))
            return owed
    elif not isinstance(error, HandleLost | asyncio.CancelledError | ProcessSuspended):
        from seekpoint.producers.durable.failures.origins import failure_origin, frames_from_own_code

        settings = process.settings
        where = failure_origin(error, process.written.failure, settings)
        trace = traceback_of(error, settings, frames=frames_from_own_code(error))
        await process.write(error_entry(process, error, trace, where))
    return None


class Opener:
    """Opens the processes of one node."""

    def __init__(self, runtime: NodeRuntime, node: ProcessNode) -> None:
        self._runtime = runtime
        self._node = node

    def opening(self, request: OpenRequest) -> Opening:
        """Return the opening that ``Node.open`` and ``Node.fork`` give to their caller."""
        check_ownable(request.process_id)
        return Opening(self, request)

    async def open(self, request: OpenRequest) -> Process:
        """Claim the process as ``request`` asks. A node has one handle for each process."""
        self._runtime.tailer.check_loop()
        self._refuse_open(request.process_id)
        self._runtime.handles[request.process_id] = None  # reserves the process while the claim is under way
        try:
            if self._runtime.shared_writes is not None:
                await self._runtime.shared_writes.let_go(request.process_id)
            inherited = None if request.inherit is None else await request.inherit()
            handle, report = await self.claim(request)
        except BaseException:
            self._runtime.handles.pop(request.process_id, None)  # absent if the node was closed meanwhile
            raise
        self._runtime.handles[request.process_id] = handle
        cause = _cause(request, handle.state)
        session = LogSession(handle, self._runtime, cause, self._runtime.forget, self._node)
        if inherited is not None:
            await _seed(session, inherited)
        return Process(DurableProcess(session, request.options), self._node, report)

    def _refuse_open(self, process_id: str) -> None:
        """Raise ``AlreadyOpen`` if this node has an open handle of the process. A closed handle does not count."""
        if process_id in self._runtime.handles:
            handle = self._runtime.handles[process_id]
            if handle is None:
                what, hint = "the process is being opened on this node", "wait for that open, and use its handle"
                raise AlreadyOpen(what, process_id=process_id, hint=hint)
            if handle.status is not HandleStatus.CLOSED:
                raise AlreadyOpen("the process is open on this node", process_id=process_id)

    # --- the claim
    async def claim(self, request: OpenRequest) -> tuple[Handle, Report]:
        """Claim the process. A claim that is lost is tried again for ``wait_s``.

        Without it, once more where the process was presumed not to exist, and where the claim that came first is this
        node's own: one of which nobody could tell in an outage whether it would arrive.
        """
        watch = ClaimWatch(request.process_id)
        partition = partition_of(watch.key, self._runtime.reader.partitions)
        clock = asyncio.get_running_loop().time
        deadline, may_presume = clock() + request.wait_s, not request.must_exist
        try:
            while True:
                tail, recovered, presumed = await self._recover_free(request, watch, may_presume, deadline)
                offset, claim_id = await self._send_claim(request, recovered.state, partition, watch.key)
                try:
                    await self._wait_for(tail, offset + 1)
                finally:
                    self._runtime.heartbeater.claimed(claim_id)
                after = watch.folded(recovered.state, offset + 1, self._runtime.reader)
                if after.owner == claim_id:
                    break
                is_own = after.owner_boot == self._runtime.identity.boot_id
                may_wait = clock() < deadline and not request.take_over  # which would fence who came first
                if request.is_shared or not (presumed or is_own or may_wait):
                    raise _lost(request.process_id, after)
                may_presume = False
                tail.detach(watch)
        except BaseException:
            self._runtime.tailer.detach(watch, partition)
            raise
        handle = Handle(request.process_id, after, offset + 1, self._runtime.reader)
        tail.attach(handle)
        handle.absorb(watch.rest(offset + 1), tail.position)
        return handle, recovered.report

    async def _send_claim(self, request: OpenRequest, state: State, partition: int, key: bytes) -> tuple[int, bytes]:
        """Append a claim on ``state``; return its offset and id. Heartbeats name the id until it is decided."""
        claim_id, agent = new_id(), request.options.agent
        body = b.Claim(
            expected_epoch=state.epoch,
            node_id=self._runtime.identity.node_id,
            boot_id=self._runtime.identity.boot_id,
            accept_degraded=request.accept_degraded,
            agent=None if agent is None else agent.name,
            agent_version=None if agent is None else agent.version,
            definition=None if agent is None else agent.definition,
        )
        entry = Entry(
            claim_id, request.process_id, None, 0, None, state.offset if state.offset >= 0 else None, now_us(),
            request.cause.actor, None, request.cause.correlation_id, body,
        )  # fmt: skip
        value = encode_within(entry, key, self._runtime.reader.limits)
        try:
            if not request.is_shared:
                await self._runtime.heartbeater.claiming(claim_id)
            return await self._runtime.outbox.push_external(partition, key, value), claim_id
        except BaseException:
            self._runtime.heartbeater.claimed(claim_id)
            raise

    async def _wait_for(self, tail: PartitionTail, position: int) -> None:
        try:
            async with asyncio.timeout(self._runtime.settings.confirm_timeout_s):
                await self._runtime.tailer.wait_for(tail, position)
        except TimeoutError as exc:
            raise await self._runtime.confirmer.why_late(tail.partition, position) or JournalUnavailable(
                "the claim could not be read in time", partition=tail.partition, offset=position - 1
            ) from exc

    async def _recover(self, request: OpenRequest, watch: ClaimWatch, may_presume: bool) -> FollowedRecovery:
        """Return the process as of now; ``watch`` keeps later records.

        A process that is proven absent below the tail's position is presumed not to exist: the claim finds out.
        """
        runtime, tailer = self._runtime, self._runtime.tailer

        def recover() -> Awaitable[Recovered]:
            return runtime.recovery.recover(request.process_id, missing_ok=True, must_be_current=True)

        def presume(tail: PartitionTail) -> Recovered | None:
            return _presumed(request, watch, tail) if may_presume and not tailer.may_lag else None

        return await recover_and_follow(watch, tailer, runtime.reader.partitions, recover, presume, is_owner=True)

    async def _recover_free(
        self, request: OpenRequest, watch: ClaimWatch, may_presume: bool, deadline: float
    ) -> FollowedRecovery:
        """Recover the process as ``_recover`` does, until it may be claimed. Raises why it may not."""
        loop = asyncio.get_running_loop()
        while True:
            found = await self._recover(request, watch, may_presume)
            state = found.recovered.state
            if request.refuse is not None:
                request.refuse(state)
            is_owned = state.owner_boot not in (None, self._runtime.identity.boot_id)
            if is_owned and not request.take_over:
                await self._runtime.heartbeater.look()
            refusal = self._refusal(request, state)
            if refusal is None:
                return found
            found.tail.detach(watch)
            if not isinstance(refusal, OwnerAlive) or loop.time() >= deadline:
                raise refusal
            await asyncio.sleep(min(_LOOK_AGAIN_S, request.wait_s))

    def _refusal(self, request: OpenRequest, state: State) -> Exception | None:
        process_id = request.process_id
        if state.finished:
            return ProcessFinished("the process is finished", process_id=process_id, seq=state.seq)
        if state.degraded is not None and not request.accept_degraded:
            return _degraded(process_id, state)
        if request.inherit is not None and (state.seq > 0 or state.submission is not None):
            return Refused("a fork needs an id that was never used", process_id=process_id, hint="choose another id")
        if state.owner is None or request.take_over:
            return None
        if state.owner_boot == self._runtime.identity.boot_id:
            return None  # claimed by this node without an open handle: a cancelled open, or a handle that was discarded
        looks = self._runtime.heartbeater.liveness.judge(state.owner_node or "", state.owner_boot or "", state.owner)
        if looks in (Looks.DEAD, Looks.FREE):
            return None
        if looks is Looks.ALIVE:
            what, hint = "the process's owner looks alive", OwnerAlive.hint
        elif looks is Looks.BLOCKED:
            what, hint = "the process's owner looks alive, though code blocks its event loop", OwnerAlive.hint
        else:
            what, wait_s = "the process's owner was not watched long enough", wait_for_death_s(self._runtime.settings)
            hint = f"open it with wait_s={wait_s:g}: so long it takes to know; or: seekpoint recover PROCESS_ID --claim"
        return OwnerAlive(what, process_id=process_id, node=state.owner_node, epoch=state.epoch, hint=hint)


def _presumed(request: OpenRequest, watch: ClaimWatch, tail: PartitionTail) -> Recovered | None:
    """Return the process as of the tail's position, if that is known without reading the log."""
    report = tail.absence.report(watch.key, tail.position)
    if report is not None:
        return Recovered(state=new_state(), report=report, known=False)
    state = None if request.known is None else request.known(tail)
    if state is None:
        return None
    return Recovered(state=state, report=Report.of_tail(tail.position, state.last_kind), known=True)


async def end_restored_wait(session: Session) -> None:
    """Make an agent's process that waited at the moment that was restored ``running``: that wait may be over.

    Without that, workers leave a released process alone that waits, to all appearance, for mail.
    """
    restored = session.written
    if restored.agent is not None and restored.lifecycle is Lifecycle.AWAITING:
        await session.append(b.LifecycleChanged(Lifecycle.RUNNING))


async def _seed(session: LogSession, inherited: b.Forked) -> None:
    try:
        await session.append(inherited)
        await end_restored_wait(session)
    except BaseException:
        session.abandon()
        raise


def _cause(request: OpenRequest, state: State) -> Cause:
    """Return the cause of the entries: with the correlation id of the submitted run, unless the caller named one."""
    wanted = state.agent or state.submission
    if request.cause.correlation_id is not None or wanted is None or wanted.correlation_id is None:
        return request.cause
    return replace(request.cause, correlation_id=wanted.correlation_id)


def _degraded(process_id: str, state: State) -> ProcessDegraded:
    degraded = state.degraded
    assert degraded is not None
    return ProcessDegraded(
        f"the process is degraded ({degraded.reason}{': ' if degraded.detail else ''}{degraded.detail})",
        process_id=process_id, expected_seq=degraded.expected_seq, found_seq=degraded.found_seq,
        abandoned=state.abandoned_entries, epoch=state.epoch,
    )  # fmt: skip


def _lost(process_id: str, state: State) -> Exception:
    if state.finished:
        return ProcessFinished("the process was finished meanwhile", process_id=process_id, seq=state.seq)
    if state.degraded is not None:
        return _degraded(process_id, state)
    return ClaimLost(
        "another claim came first", process_id=process_id, epoch=state.epoch, node=state.owner_node,
        hint="its owner has released the process again: open it again" if state.owner is None else ClaimLost.hint,
    )  # fmt: skip
