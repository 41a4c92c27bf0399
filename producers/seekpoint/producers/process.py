"""An open process: what an agent does as it. Every call returns once its entry is acknowledged by Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from seekpoint.producers.durable.branches.branch_calls import BranchCalls
from seekpoint.producers.durable.budgets.budget_calls import BudgetCalls
from seekpoint.producers.durable.content.attachment_calls import AttachmentCalls
from seekpoint.producers.durable.content.content_calls import ContentCalls
from seekpoint.producers.durable.decisions.decision_calls import DecisionCalls
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.effects.effect_calls import EffectCalls
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.producers.durable.steps.sample_calls import SampleCalls
from seekpoint.producers.durable.steps.step_calls import StepCalls
from seekpoint.producers.durable.steps.turn_calls import TurnCalls
from seekpoint.producers.durable.waits.child_calls import ChildCalls
from seekpoint.producers.durable.waits.gate_calls import GateCalls
from seekpoint.producers.durable.waits.mail_calls import ReceiveCalls
from seekpoint.producers.durable.waits.shared_values import SharedCalls
from seekpoint.producers.durable.waits.timer_calls import TimerCalls
from seekpoint.producers.node_services import AgentNode
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import HandleLost, Refused, Retryable
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recovery_report import Report
    from seekpoint.producers.durable.content.invocation import Invocation
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State

__all__ = ["Acknowledged", "Process", "ProcessNode", "durable_side"]


class ProcessNode(AgentNode, Protocol):
    """The calls of a node that the code of a process may make: those that tell other processes something."""

    async def signal(
        self, process_id: str, name: str, payload: Any = None, *, actor: str | None = None,
        signal_id: bytes | None = None,
    ) -> bytes:  # fmt: skip
        """Send a signal; return its id."""
        ...

    async def cancel(self, process_id: str, reason: str | None = None, *, actor: str | None = None) -> bytes:
        """Ask a process to stop; return the request's id."""
        ...

    async def approve(
        self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None,
        in_advance: bool = False,
    ) -> bytes:  # fmt: skip
        """Say yes to an open gate; return the signal's id."""
        ...

    async def deny(
        self, process_id: str, gate: str, *, reason: str | None = None, actor: str | None = None,
        in_advance: bool = False,
    ) -> bytes:  # fmt: skip
        """Say no to an open gate; return the signal's id."""
        ...


class Process(
    ContentCalls, StepCalls, DecisionCalls, EffectCalls, BudgetCalls, SampleCalls, TimerCalls, GateCalls, ReceiveCalls,
    ChildCalls, SharedCalls, TurnCalls, BranchCalls, AttachmentCalls,
):  # fmt: skip
    """One agent process, owned by this node. Safe to use from many tasks of its event loop.

    Each call below raises ``Fenced`` once another owner has claimed the process, ``AppendTimeout`` when Kafka stayed
    silent for ``append_timeout_s`` and ``heal_timeout_s`` (the handle is closed then), ``LimitExceeded`` and
    ``UnserializableValue`` before anything is sent.
    """

    def __init__(self, durable: DurableProcess, node: ProcessNode, report: Report) -> None:
        super().__init__(durable)
        self.node = node
        """The node that owns the process. What code asks of it is not remembered."""
        self.report = report
        """What finding the state cost when the process was opened."""

    # --- looking
    @property
    def process_id(self) -> str:
        """The process's name."""
        return self._durable.process_id

    @property
    def state(self) -> State:
        """The confirmed fold plus what this owner was acknowledged. Frozen: it never changes under its holder.

        While an agent's code runs again, its content is what it was then: ``written`` has what became of it.
        """
        return self._durable.state

    @property
    def written(self) -> State:
        """The state, with the newest content also while code is being replayed."""
        return self._durable.written

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self._durable.limits

    @property
    def is_open(self) -> bool:
        """Return False once the process was released, finished, fenced or given up."""
        return self._durable.session.is_open

    def patched(self, change: str) -> bool:
        """Whether changed code may run here: ``if process.patched("new-prompt"): ... else: the old way``.

        True where the history was made with the change, or nothing of it is left; then it stays so for ever. False
        while what was made without it is replayed, and to the end of the run (or of the turn), which is one program.
        """
        return self._durable.patched(change)

    # --- life
    @asynccontextmanager
    async def invocation(self, trigger: str, payload: Any = None) -> AsyncIterator[Invocation]:
        """One piece of work: entries for its trigger, its start and its result with outcome and duration.

        ``async with process.invocation("message", {...}) as work: work.result = ...``. An exception ends it as
        ``failed`` (cancellation: ``cancelled``) and goes on, whether that could be written or not.
        """
        from seekpoint.producers.durable.content.invocation import Invocation

        work = Invocation(self._durable, trigger, payload)
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
        durable = self._durable
        durable.session.check_open()
        if durable.options.agent is not None:
            raise Refused("an agent does not rewind itself", process_id=self.process_id, hint="rewind it from outside")
        if not self.state.deleted_seq < to_seq <= self.state.seq:
            raise Refused(
                "there is no such seq to rewind to", process_id=self.process_id, to_seq=to_seq, seq=self.state.seq,
                hint="look with seekpoint log PROCESS_ID",
            )  # fmt: skip
        await durable.confirm()
        rewound = await durable.append(b.Rewound(to_seq, await durable.session.past_content(to_seq)))
        durable.reset_after_rewind()
        return rewound

    async def confirm(self) -> None:
        """Return once everything acknowledged so far was seen applied. Raises ``Fenced``, ``ConfirmTimeout``."""
        await self._durable.confirm()

    async def flush(self) -> None:
        """Return once everything written so far is acknowledged, also what was written with ``wait=False``.

        Raises the first failure: the entries from it on may be lost, and the handle is closed.
        """
        await self._durable.flush()
        await self._durable.session.flush()

    async def checkpoint(self, *, timeout_s: float = 30.0) -> int:
        """Ask for a checkpoint and return once it is saved: the journal offset it is as of.

        Reads the checkpoint topic, not Redis. Needs a projector that runs: ``CheckpointTimeout`` without one; the
        request stays in the log all the same.
        """
        await self._durable.flush()
        return await self._durable.session.checkpoint(timeout_s)

    async def release(self, reason: str | None = None) -> None:
        """Give the process up: confirmed, so that whoever opens it next need not wait. Closes this handle."""
        durable = self._durable
        if durable.is_running_code:
            raise Refused("an agent's process is released when its code ends", process_id=self.process_id,
                          hint="return, or raise")  # fmt: skip
        if self.is_open:
            await durable.flush()
        seen = [one for one in durable.written.mailbox if one in durable.mail_seen]
        why = None if reason is None else durable.settings.scrub(reason)
        await durable.end(b.Released(why, seen[-1] if seen else None))

    async def finish(self, result: Any = None) -> None:
        """End the process for ever with ``result``; only a gravestone stays. Returns once that is confirmed."""
        if self._durable.options.agent is not None:
            raise Refused("an agent ends by returning", process_id=self.process_id, hint="return the result")
        await self._durable.end(b.Finished(dump(result, self._durable.limits)))


def durable_side(process: Process) -> DurableProcess:
    """Return the durable side of a process: for what opens and runs it, not for the code that runs as it."""
    return process._durable
