"""An open process: what an agent does as it. Every call returns once its entry is acknowledged by Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.consumers import Recovery, Report
from seekpoint.consumers.checkpoints.cadence import CHECKPOINT_REQUEST
from seekpoint.consumers.recovery.recovery_report import LastCheckpoint
from seekpoint.producers.durable.content.content_calls import ContentWrites
from seekpoint.producers.durable.content.invocation import Invocation
from seekpoint.producers.durable.effects.effect_calls import EffectCalls
from seekpoint.producers.durable.effects.kept_effects import content_to_rewind_to
from seekpoint.producers.durable.replay.conduct import RunOptions
from seekpoint.producers.durable.replay.memory import Memory
from seekpoint.producers.writer.confirmer import Confirmer
from seekpoint.producers.writer.handle import Cause, Handle, HandleStatus
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import CheckpointTimeout, HandleLost, Refused, Retryable, SeekpointError
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_budget import Budget
from seekpoint.schemas.state.state import State
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.node import Node

__all__ = ["Acknowledged", "Process"]

_HELD_CHARACTERS_MAX, _HELD_BYTES_MAX = 65_536, 16_384
"""The arguments of a start that is held, and the room it needs in the state: nobody is told later that it has none."""
_SAVED_POLL_S = 0.02


class Acknowledged(NamedTuple):
    """An entry that is in the log: its number in the process, and where it lies."""

    seq: int
    offset: int


class Process(ContentWrites, Memory, EffectCalls):
    """One agent process, owned by this node. Safe to use from many tasks of its event loop.

    Each call below raises ``Fenced`` once another owner has claimed the process, ``AppendTimeout`` when Kafka stayed
    silent for ``append_timeout_s`` and ``heal_timeout_s`` (the handle is closed then), ``LimitExceeded`` and
    ``UnserializableValue`` before anything is sent.
    """

    def __init__(
        self,
        handle: Handle,
        outbox: Outbox,
        confirmer: Confirmer,
        recovery: Recovery,
        cause: Cause,
        on_let_go: Callable[[Handle], None],
        report: Report,
        node: Node,
        conduct: RunOptions,
    ) -> None:
        self._handle = handle
        self._outbox = outbox
        self._confirmer = confirmer
        self._recovery = recovery
        self._cause = cause
        self._on_let_go = on_let_go
        self.report = report
        """What finding the state cost when the process was opened."""
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, Callable[[], b.StepStarted]] = {}
        self.node = node
        self.conduct = conduct
        self.task = asyncio.current_task()
        """The task that opened it: its calls are those of the main code."""

    # --- looking
    @property
    def process_id(self) -> str:
        """The process's name."""
        return self._handle.process_id

    @property
    def state(self) -> State:
        """The confirmed fold plus what this owner was acknowledged. Frozen: it never changes under its holder.

        While an agent's code runs again, its content is what it was then: ``written`` has what became of it.
        """
        kept, writes = self._kept, self._writes
        view = kept.view if kept is not None else writes.view if writes is not None else None
        return self._handle.state if view is None else view.state(self._handle.state)

    @property
    def written(self) -> State:
        """The same, whatever is being replayed."""
        return self._handle.state

    def times_forgotten(self, key: str) -> int:
        """How often a rewind forgot the call ``key``."""
        return self._handle.times_forgotten(key)

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle once everything sent so far is in the log."""
        return self._handle.ahead_lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget once everything sent so far is in the log; None where none was set."""
        return self._handle.ahead_budget

    @property
    def is_open(self) -> bool:
        """False once the process was released, finished, fenced or given up."""
        return self._handle.status is not HandleStatus.CLOSED

    def check(self) -> None:
        """Raise what ended the process for this node (``Fenced``, ``AppendTimeout``, ...), if anything did."""
        if self._handle.error is not None:
            raise self._handle.error

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self._handle.limits

    # --- life
    @asynccontextmanager
    async def invocation(self, trigger: str, payload: Any = None) -> AsyncIterator[Invocation]:
        """One piece of work: entries for its trigger, its start and its result with outcome and duration.

        ``async with process.invocation("message", {...}) as work: work.result = ...``. An exception ends it as
        ``failed`` (cancellation: ``cancelled``) and goes on, whether that could be written or not.
        """
        work = Invocation(self, trigger, payload)
        await work.begin()
        try:
            yield work
        except (Exception, asyncio.CancelledError) as exc:
            cancelled = isinstance(exc, asyncio.CancelledError)
            # The agent's own exception says more than what kept it from being written down.
            with suppress(HandleLost, Retryable):
                await work.end("cancelled" if cancelled else "failed", None if cancelled else exc)
            raise
        else:
            await work.end("succeeded")

    async def rewind(self, to_seq: int) -> Acknowledged:
        """Make the content what it was after ``to_seq`` (rule O7). The history stays; epoch, owner and seq go on.

        Waits until all that was acknowledged is confirmed: only then is the log's past this owner's own. Raises
        ``Refused`` for a seq that is not there, ``LimitExceeded`` if that content does not fit into a state together
        with what a rewind keeps, ``JournalGap`` where its history was trimmed, ``ConfirmTimeout``.
        """
        self._handle.check_open()
        if self.conduct.agent is not None:
            raise Refused("an agent does not rewind itself", process_id=self.process_id, hint="rewind it from outside")
        if not 1 <= to_seq <= self.state.seq:
            raise Refused(
                "there is no such seq to rewind to", process_id=self.process_id, to_seq=to_seq, seq=self.state.seq,
                hint="look with seekpoint log ID",
            )  # fmt: skip
        await self.confirm()
        past = (await self._recovery.recover(self.process_id, at_seq=to_seq)).state
        content = await self.node.in_thread(
            lambda: content_to_rewind_to(self.node.reader, self.process_id, past, self.written)
        )
        rewound = await self.append(b.Rewound(to_seq, content))
        self._kept = None
        self.begin_anew()  # as if it were opened again
        return rewound

    async def confirm(self) -> None:
        """Return once everything acknowledged so far was seen applied. Raises ``Fenced``, ``ConfirmTimeout``."""
        await self.flush()
        await self._confirm(self._handle.last_offset)

    async def checkpoint(self, *, timeout_s: float = 30.0) -> int:
        """Ask for a checkpoint and return once it is saved: the journal offset it is as of.

        Reads the checkpoint topic, not Redis. Needs a projector that runs: ``CheckpointTimeout`` without one; the
        request stays in the log all the same.
        """
        await self.flush()
        asked = await self.append(b.Custom(CHECKPOINT_REQUEST))
        try:
            async with asyncio.timeout(timeout_s):
                while not _covers(  # noqa: ASYNC110  # Kafka gives no event to wait for
                    saved := await self._recovery.last_checkpoint(self.process_id), asked.offset
                ):
                    await asyncio.sleep(_SAVED_POLL_S)
                assert saved is not None
        except TimeoutError as exc:
            raise CheckpointTimeout(
                "no checkpoint was saved in time", process_id=self.process_id, offset=asked.offset, timeout_s=timeout_s
            ) from exc
        return saved.offset

    async def release(self, reason: str | None = None) -> None:
        """Give the process up: confirmed, so that whoever opens it next need not wait. Closes this handle."""
        if self._writes is not None:
            raise Refused("an agent's process is released when its code ends", process_id=self.process_id,
                          hint="return, or raise")  # fmt: skip
        if self.is_open:
            await self.flush()
        await self._end(b.Released(None if reason is None else self.node.settings.scrub(reason)))

    async def finish(self, result: Any = None) -> None:
        """End the process for ever with ``result``; only a gravestone stays. Returns once that is confirmed."""
        if self.conduct.agent is not None:
            raise Refused("an agent ends by returning", process_id=self.process_id, hint="return the result")
        await self.finish_with(dump(result, self.limits))

    async def finish_with(self, result_json: b.Json) -> None:
        """The same, with the result's text."""
        await self._end(b.Finished(result_json))

    # --- inside
    async def append(self, body: b.Body) -> Acknowledged:
        """Write one entry of this owner and wait for its acknowledgement. The calls above all come down to this."""
        future: asyncio.Future[int] = self._loop.create_future()
        seq = self._push(body, future)
        return Acknowledged(seq, await future)

    def send(self, body: b.Body) -> int:
        """Write one entry and do not wait: its seq. A failure closes the handle, so every later call tells of it."""
        return self._push(body, None)

    def hold(self, key: str, start: Callable[[], b.StepStarted], characters: int) -> bool:
        """Keep the start of the step ``key`` back until the event loop goes on, or anything else is written.

        Two records in a moment are two requests to the broker, and two writes to its disk: ``take_back`` it for an
        entry that says both. False for one whose ``characters`` of arguments may not fit: it is to be sent.
        """
        if characters > _HELD_CHARACTERS_MAX or not self._handle.has_room(_HELD_BYTES_MAX):
            return False
        self._handle.check_open()
        if not self._held:
            self._loop.call_soon(self._send_held)
        self._held[key] = start
        return True

    def take_back(self, key: str) -> bool:
        """Whether the start of ``key`` was still held; now it is not."""
        return self._held.pop(key, None) is not None

    def _send_held(self) -> None:
        held, self._held = self._held, {}
        for key, start in held.items():
            try:
                self._push(start(), None)
            except HandleLost:
                return  # whatever is asked of the process next is told
            except SeekpointError:
                self._held[key] = start  # its end says it, or is refused too

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """Write one entry now; its offset can be waited for later."""
        future: asyncio.Future[int] = self._loop.create_future()
        self._push(body, future)
        return future

    def acknowledged(self, seq: int) -> Acknowledged:
        """What an entry of the past is answered with: where it lies is not kept (offset -1)."""
        return Acknowledged(seq, -1)

    async def acknowledged_now(self) -> Acknowledged:
        """What a change that is kept back is answered with: the newest entry there is."""
        return Acknowledged(self._handle.acknowledged_seq, self._handle.last_offset)

    def _push(self, body: b.Body, future: asyncio.Future[int] | None) -> int:
        if self._held and not isinstance(body, b.StepStarted):
            self._send_held()
        pending = self._handle.prepare(new_id(), now_us(), body, self._cause, future)
        self._outbox.push(pending)
        return pending.seq

    async def _end(self, body: b.Body) -> None:
        self._handle.check_open()
        self._send_held()
        future: asyncio.Future[int] = self._loop.create_future()
        pending = self._handle.prepare(new_id(), now_us(), body, self._cause, future)
        self._handle.ending = True
        self._outbox.push(pending)
        try:
            await self._confirm(await future)
        finally:
            self.let_go()

    async def _confirm(self, offset: int) -> None:
        await self._confirmer.through(self._handle, offset + 1)
        self.check()

    def caused_by(self, entry_id: bytes | None) -> None:
        """Name the entry that leads to those written from here on."""
        self._cause = replace(self._cause, caused_by=entry_id)

    def let_go(self) -> None:
        """Forget the handle on this node; the process stays claimed unless it was released.

        Calls still under way raise ``HandleClosed``: their entries may be in the log, or get there.
        """
        self.children.abandon()
        self._handle.let_go()
        self._on_let_go(self._handle)


def _covers(saved: LastCheckpoint | None, offset: int) -> bool:
    return saved is not None and saved.offset >= offset and saved.problem is None
