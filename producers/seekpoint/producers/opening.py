"""Opening a process (rules O2 and O6): recover, claim, read through the claim, and only then act.

Nobody acts on a claim whose offset it does not know. The first claim in the log wins; the fold says which that was.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from seekpoint.consumers import Recovered, Recovery, Report
from seekpoint.consumers.heartbeats import Verdict as Looks
from seekpoint.consumers.scan import scan
from seekpoint.producers.confirm import Confirmer
from seekpoint.producers.handle import Cause, Handle, Status
from seekpoint.producers.identity import Identity
from seekpoint.producers.outbox import Outbox
from seekpoint.producers.process import Process
from seekpoint.producers.pulse import Pulse
from seekpoint.schemas import bodies as b
from seekpoint.schemas.clock import now_us
from seekpoint.schemas.codec import encode
from seekpoint.schemas.entry import Entry, new_id, process_key
from seekpoint.schemas.errors import (
    AlreadyOpen,
    ClaimLost,
    LimitExceeded,
    OwnerAlive,
    ProcessDegraded,
    ProcessFinished,
    Refused,
    Reopen,
    TryAgain,
)
from seekpoint.schemas.log import LogReader
from seekpoint.schemas.partition import partition_of
from seekpoint.schemas.state import State

__all__ = ["Opener", "Opening", "Wish"]

T = TypeVar("T")

_LOOK_AGAIN_S = 0.25
_TRACEBACK_CHARACTERS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody who opens a process asked for."""

    process_id: str
    cause: Cause
    take_over: bool = False
    accept_degraded: bool = False
    wait_s: float = 0.0
    parent_id: str | None = None
    parent_seq: int | None = None


class Opening:
    """A process about to be opened: ``async with`` it (leaving releases), or ``await`` it and release it yourself."""

    def __init__(self, opener: Opener, wish: Wish) -> None:
        self._opener = opener
        self._wish = wish
        self._process: Process | None = None

    def __await__(self) -> Generator[Any, None, Process]:
        return self._opener.open(self._wish).__await__()

    async def __aenter__(self) -> Process:
        self._process = await self._opener.open(self._wish)
        return self._process

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record what was raised, then release. A handle that is over already is only let go."""
        process = self._process
        assert process is not None
        try:
            if process.is_open:
                if error is not None and not isinstance(error, Reopen | asyncio.CancelledError):
                    await process.record_error(error, _traceback(error))
                await process.release()
            elif error is None:
                process.check()  # fenced after its last call: leaving quietly would hide it
        except (Reopen, TryAgain):
            if error is None:
                raise
            # The agent's own exception says more than what kept it from being written down.
        finally:
            process.let_go()


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_TRACEBACK_CHARACTERS_MAX:]


class Opener:
    """Opens processes for one node."""

    def __init__(
        self,
        handles: dict[str, Handle | None],
        reader: LogReader,
        executor: Executor,
        recovery: Recovery,
        outbox: Outbox,
        confirmer: Confirmer,
        pulse: Pulse,
        identity: Identity,
    ) -> None:
        self._handles = handles
        self._reader = reader
        self._executor = executor
        self._recovery = recovery
        self._outbox = outbox
        self._confirmer = confirmer
        self._pulse = pulse
        self._identity = identity

    def opening(self, wish: Wish) -> Opening:
        """What ``Node.open`` and ``Node.fork`` hand out."""
        process_key(wish.process_id)
        return Opening(self, wish)

    async def open(self, wish: Wish) -> Process:
        """Claim the process as ``wish`` asks. One handle a process on a node."""
        self._refuse_open(wish.process_id)
        self._handles[wish.process_id] = None  # its place is taken while the claim is under way
        try:
            inherited = await self._inherited(wish)
            handle, report = await self._claim(wish)
        except BaseException:
            self._handles.pop(wish.process_id, None)  # the node may have been closed meanwhile
            raise
        self._handles[wish.process_id] = handle
        process = Process(handle, self._outbox, self._confirmer, self._recovery, wish.cause, self._let_go, report)
        if inherited is not None:
            await self._seed(process, inherited)
        return process

    def _refuse_open(self, process_id: str) -> None:
        """One handle a process: one that is over, but was never let go, does not count."""
        if process_id in self._handles:
            handle = self._handles[process_id]
            if handle is None or handle.status is not Status.CLOSED:
                raise AlreadyOpen("the process is open on this node", process_id=process_id)

    def _let_go(self, handle: Handle) -> None:
        if self._handles.get(handle.process_id) is handle:
            del self._handles[handle.process_id]

    async def _inherited(self, wish: Wish) -> b.Forked | None:
        """What a fork starts with. Found before anything is claimed: an id is used up by its first claim."""
        if wish.parent_id is None:
            return None
        parent = (await self._recovery.recover(wish.parent_id, at_seq=wish.parent_seq)).state
        content, limit = parent.content_json(), self._reader.limits.record_bytes
        if len(content.encode()) > limit:
            raise LimitExceeded(
                "the parent's content is larger than the journal's record limit",
                process_id=wish.process_id, parent_id=wish.parent_id, limit=limit,
            )  # fmt: skip
        return b.Forked(wish.parent_id, parent.seq, content)

    async def _seed(self, process: Process, inherited: b.Forked) -> None:
        try:
            await process.append(inherited)
        except BaseException:
            process.let_go()
            raise

    # --- the claim
    async def _claim(self, wish: Wish) -> tuple[Handle, Report]:
        recovered = await self._recover_free(wish)
        state = recovered.state
        claim_id = new_id()
        body = b.Claim(
            expected_epoch=state.epoch,
            node_id=self._identity.node_id,
            boot_id=self._identity.boot_id,
            accept_degraded=wish.accept_degraded,
        )
        entry = Entry(
            claim_id, wish.process_id, None, 0, None, state.offset if state.offset >= 0 else None, now_us(),
            wish.cause.actor, None, wish.cause.correlation_id, body,
        )  # fmt: skip
        key = process_key(wish.process_id)
        partition = partition_of(key, self._reader.partitions)
        try:
            await self._pulse.claiming(claim_id)
            offset = await self._outbox.push_external(partition, key, encode(entry))
            after = await self._run(self._read_through, partition, key, state, recovered.report.log_end, offset + 1)
        finally:
            self._pulse.claimed(claim_id)
        if after.owner != claim_id:
            raise _lost(wish.process_id, after)
        return Handle(wish.process_id, after, offset + 1, self._reader), recovered.report

    def _read_through(self, partition: int, key: bytes, state: State, start: int, stop: int) -> State:
        drafts = {key: state.thaw()}
        # Poison is left to the readers of the whole partition: here it changes nothing.
        scan(self._reader, partition, drafts, start, stop, lambda record, error: None)
        return drafts[key].freeze()

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)

    async def _recover_free(self, wish: Wish) -> Recovered:
        """The process as of now, once it may be claimed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wish.wait_s
        while True:
            recovered = await self._recovery.recover(wish.process_id, missing_ok=True)
            if recovered.state.owner is not None and not wish.take_over:
                await self._pulse.look()
            refusal = self._refusal(wish, recovered.state)
            if refusal is None:
                return recovered
            if not isinstance(refusal, OwnerAlive) or loop.time() >= deadline:
                raise refusal
            await asyncio.sleep(min(_LOOK_AGAIN_S, wish.wait_s))

    def _refusal(self, wish: Wish, state: State) -> Exception | None:
        process_id = wish.process_id
        if state.finished:
            return ProcessFinished("the process is finished", process_id=process_id, seq=state.seq)
        if state.degraded is not None and not wish.accept_degraded:
            return _degraded(process_id, state)
        if wish.parent_id is not None and state.epoch > 0:
            return Refused("a fork needs an id that was never used", process_id=process_id, hint="choose another id")
        if state.owner is None or wish.take_over:
            return None
        if state.owner_boot == self._identity.boot_id:
            return None  # claimed here, and no handle holds it any more: an open that was cancelled, a handle let go
        looks = self._pulse.liveness.judge(state.owner_node or "", state.owner_boot or "", state.owner)
        if looks in (Looks.DEAD, Looks.FREE):
            return None
        alive = looks is Looks.ALIVE
        return OwnerAlive(
            "the process's owner looks alive" if alive else "the process's owner was not watched long enough",
            process_id=process_id, node=state.owner_node, epoch=state.epoch,
        )  # fmt: skip


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
    return ClaimLost("another claim came first", process_id=process_id, epoch=state.epoch, node=state.owner_node)
