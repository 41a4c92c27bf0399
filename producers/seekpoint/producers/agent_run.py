"""Running an agent: claim its process, call its code, journal its result. No worker is needed.

created            -> running  by ``AgentStarted`` itself: a short run has few entries
failed, stopped, … -> starting -> running
running            -> stopped  by ``Finished`` itself, with the result
                   -> failed   an exception, recorded; run it again to resume, or to try failed calls again
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.durable.steps.agent_values import (
    GivenInput,
    journaled_input,
    journaled_result,
    rebuilt_input,
    rebuilt_result,
)
from seekpoint.producers.durable.waits.children import granted_to
from seekpoint.producers.node_services import NodeServices
from seekpoint.producers.opening import Opening
from seekpoint.producers.process import Process, durable_side
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import (
    AgentMismatch,
    BudgetExceeded,
    Cancelled,
    EffectDuplicate,
    EffectFailed,
    EffectHeld,
    EffectUnknown,
    HandleLost,
    LimitExceeded,
    ObligationStuck,
    OperatorRequired,
    ProcessFinished,
    ProcessSuspended,
    Refused,
    ReplayDivergence,
    Retryable,
    SeekpointError,
    StepFailed,
    UnknownProcess,
)
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import AgentRun
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State


class Recorded(StrEnum):
    """The type of ``RECORDED``."""

    INPUT = "recorded"


RECORDED: Final = Recorded.INPUT
"""The default of ``input``: the input that the process began with; for a process that has not begun, the default of
the agent's parameter, or None."""


async def run_agent(
    node: NodeServices,
    opening: Opening,
    process_id: str,
    agent: Agent,
    given: GivenInput | Recorded,
    retry_failed: bool | Collection[str] = False,
    new: bool | None = None,
) -> Any:
    """Run ``agent`` as the process; return its result. See ``Node.run``."""
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(opening)
        except ProcessFinished:
            state = (await node.recover(process_id)).state
            refuse_mismatch(process_id, state, agent, given, node.reader.limits, new)
            return rebuilt_result(agent, state.result_json or "null", process_id)
        with node.metrics.runs.counted(is_resumed=process.written.agent is not None):
            return await run_opened(process, agent, given, retry_failed, new, look_s=_LOOK_S)


def move_up(process: DurableProcess) -> None:
    """Write that the process is running, by the lifecycles that lead there."""
    for step in _WAYS_UP.get(process.ahead_lifecycle, ()):
        process.send(b.LifecycleChanged(step))


async def mark_cut_off(process: DurableProcess) -> None:
    """Write that a process is running whose code was cut off, perhaps between two waits: its next owner runs it then.

    Before it, release its children: until then the end of one may be written.
    """
    try:
        await process.release_children()
    finally:
        if process.session.is_open and process.ahead_lifecycle is Lifecycle.AWAITING:
            with suppress(SeekpointError):
                process.send(b.LifecycleChanged(Lifecycle.RUNNING))


async def run_opened(
    process: Process,
    agent: Agent,
    given: GivenInput | Recorded,
    retry_failed: bool | Collection[str] = False,
    new: bool | None = None,
    *,
    look_s: float | None = None,
) -> Any:
    """Run ``agent`` as an open process; return its result.

    ``look_s``: how often to look whether somebody has suspended the process, which raises ``ProcessSuspended``.
    """
    durable = durable_side(process)
    run, tracer = _Run(process, durable, agent, new, look_s), durable.tracer
    if tracer is None:
        return await run.run(given, retry_failed)
    began, wanted = durable.written.agent, durable.written.submission
    with tracer.run(
        process.process_id, agent.name, agent.version,
        submitted=None if wanted is None else wanted.trace_parent, first=None if began is None else began.trace_parent,
    ):  # fmt: skip
        return await run.run(given, retry_failed)


def refuse_mismatch(
    process_id: str, state: State, agent: Agent, given: GivenInput | Recorded, limits: Limits, new: bool | None = None
) -> None:
    """Raise ``AgentMismatch`` where the process, finished or not, began with another agent or another input.

    An input that is not given (``RECORDED``) and another version of the agent are no mismatch. Raises ``InvalidValue``
    for an input that does not fit the agent. Where ``new`` says so, also raise what ``_refuse_unmeant`` raises.
    """
    if state.is_on_hold:
        raise _suspended(process_id, state)
    _refuse_unmeant(process_id, state, new)
    if new and given is RECORDED and agent.needs_input:
        raise Refused(
            "the agent needs an input, nothing was run", process_id=process_id, agent=agent.name,
            hint="give it one, None too: --input JSON (null: None); or give the parameter of its function a default",
        )  # fmt: skip
    text = None if isinstance(given, Recorded) else given.text(limits)  # raises before anything is written
    began = state.agent
    if began is None and (wanted := state.submission) is not None:
        began = AgentRun(wanted.agent, "", "", wanted.input_json)
    if began is None:
        if text is None and not state.finished:
            journaled_input(agent, agent.default_input, limits, process_id)  # what the process would begin with
        if state.finished:
            raise AgentMismatch(
                "the process was finished by a program, not by an agent",
                kind="agent", process_id=process_id, asked=agent.name,
            )  # fmt: skip
        return
    if began.name != agent.name:
        raise AgentMismatch(
            "the process is another agent's", kind="agent", agent=began.name, process_id=process_id, asked=agent.name
        )
    if text is None or isinstance(given, Recorded) or given.is_of(began, limits):
        return
    from seekpoint.producers.durable.replay.value_differences import first_difference

    difference = None if began.kept_digest else first_difference(began.input, load(text))
    raise AgentMismatch(
        "the process began with another input",
        kind="input", difference=difference, process_id=process_id, asked=agent.name,
    )  # fmt: skip


def _suspended(process_id: str, state: State) -> ProcessSuspended:
    assert state.hold is not None
    return ProcessSuspended(
        "the process is suspended",
        process_id=process_id, reason=state.hold.reason, actor=state.hold.actor,
    )  # fmt: skip


def _refuse_unmeant(process_id: str, state: State, new: bool | None) -> None:
    """Refuse to resume a process that never began (``new`` is False), or to begin one that exists (True).

    Raises ``UnknownProcess`` or ``Refused``. A claim alone is no beginning: its owner may have died right after it.
    """
    has_agent = state.agent is not None or state.finished
    if new is False and not has_agent:
        if state.epoch == 0:
            raise UnknownProcess("no such process, nothing was started", process_id=process_id)
        raise Refused(
            "no agent has begun as this process", process_id=process_id,
            hint="give its input: seekpoint run PROCESS_ID --agent MODULE:FUNCTION --input JSON (null: none)",
        )  # fmt: skip
    if new and (has_agent or state.seq > 0):
        run = "seekpoint run PROCESS_ID --agent MODULE:FUNCTION"
        way = f"resume it: {run} --resume" if has_agent else f"begin an agent as this one: {run} --input JSON"
        raise Refused(
            "the process exists, nothing was run", process_id=process_id, seq=state.seq,
            hint=f"use another id, or {way}",
        )  # fmt: skip


class _Run(FrozenStruct, frozen=True):
    """One run of an agent's code, from its beginning or the recorded history to its end."""

    process: Process
    durable: DurableProcess
    agent: Agent
    new: bool | None
    look_s: float | None

    async def run(self, given: GivenInput | Recorded, retry_failed: bool | Collection[str] = False) -> Any:
        """Return the result once it is confirmed. Set failed calls aside first if ``retry_failed`` asks for it."""
        self._check(given)
        cancellation = self.durable.cancellation
        if cancellation.is_accepted and self.durable.ahead_lifecycle is Lifecycle.FAILED:
            move_up(self.durable)  # else the request to make its compensations again would ask for a run for ever
        if cancellation.accept() and (cancellation.is_complete or not cancellation.needs_replay):
            raise cancellation.error()
        mail = frozenset(self.durable.written.mailbox)
        if retry_failed and not isinstance(retry_failed, bool):
            await self._set_aside(retry_failed)  # a key that is none refuses the run before anything is written
        try:
            if retry_failed is True:
                await self._set_aside(True)
            text = await self._result(self._begin(given, await granted_to(self.durable.session, given)))
            if cancellation.is_accepted:
                raise cancellation.error()  # the code caught it and went on; the process does not
        except _HeldError as held:
            raise _suspended(self.process.process_id, held.state) from None
        except asyncio.CancelledError:
            if cancellation.caused(asyncio.current_task()):
                raise cancellation.error() from None
            raise
        except Exception as exc:
            from seekpoint.producers.durable.failures.recorded_failures import unwrapped

            error = unwrapped(exc)
            if isinstance(error, ReplayDivergence):
                from seekpoint.producers.durable.replay.differences import add_difference

                await add_difference(self.durable.session, error)
            if cancellation.is_accepted and not isinstance(error, Cancelled | HandleLost | Retryable):
                raise cancellation.error() from exc
            retry_at_us = self._retry_at_us(error)
            if retry_at_us is None:
                await self._take_back(error)
            self.durable.mail_seen = mail  # what came during the run may have come too late for its code
            self._note(error, retry_at_us)
            if error is exc:
                raise
            raise error from exc
        finally:
            self.durable.end_replay()
        await self._finish(text)
        return rebuilt_result(self.agent, text, self.process.process_id)

    async def _set_aside(self, keys_or_all: bool | Collection[str]) -> None:
        if not self.durable.cancellation.is_accepted:
            from seekpoint.producers.durable.failures.redriven_calls import set_aside

            await set_aside(self.durable, keys_or_all)

    async def _result(self, asked: Any) -> b.Json:
        process = self.durable
        result = await self._called(asked)
        await process.children.join()
        await process.flush()
        await process.check_read()
        text = journaled_result(self.agent, result, process.limits, process.process_id)
        if len(text) > process.limits.record_bytes - _ENVELOPE_BYTES:
            raise LimitExceeded(
                "the result is larger than an entry may be", process_id=process.process_id, bytes=len(text),
                limit=process.limits.record_bytes,
            )  # fmt: skip
        return text

    async def _called(self, asked: Any) -> Any:
        """Run the code in a task of its own and return its result.

        If the run is cancelled from outside, the code is cancelled too, and the calls that it makes on its way out are
        refused. If they were recorded, the next run would diverge there.
        """
        process, told, held = self.durable, None, None
        code = asyncio.ensure_future(self._run_code(asked))
        try:
            while not code.done():
                try:
                    await asyncio.wait([code], timeout=self.look_s)
                    if held is None and not code.done() and await self._is_suspended():
                        held = process.written
                        process.matcher.close()
                        code.cancel()
                except asyncio.CancelledError as exc:
                    told = exc
                    process.matcher.close()
                    code.cancel(*exc.args)
        finally:
            process.set_main_task(asyncio.current_task())
        if held is not None and told is None:
            await mark_cut_off(process)
            raise _HeldError(held)
        if told is not None:
            raise told from None if code.cancelled() else code.exception()
        if process.exit is not None or (code.cancelled() and not process.cancellation.is_accepted):
            # A task of the code ended the event loop for a moment, or the code has cancelled its own task.
            from seekpoint.producers.durable.failures.program_exits import as_failure

            raise as_failure(process.exit or asyncio.CancelledError(), "the code")
        return await code

    async def _is_suspended(self) -> bool:
        """Whether somebody has suspended the process, as far as the log can be read. Many runs share one read."""
        with suppress(SeekpointError):
            await self.durable.session.read_log(_LOOK_S / 2)
        return self.durable.written.is_on_hold

    async def _run_code(self, asked: Any) -> Any:
        self.durable.set_main_task(asyncio.current_task())  # here, because an eager task runs when it is created
        try:
            if not self.agent.is_plain:
                return await self.agent.run(self.process, asked)
            from seekpoint.producers.sync_process import run_in_thread

            return await run_in_thread(self.agent, self.process, asked)
        except BaseException as exc:  # an exit would leave the task, and end the event loop
            from seekpoint.producers.durable.failures.program_exits import raise_failure

            raise_failure(exc, asyncio.current_task(), "the code")
            raise

    # --- the beginning
    def _begin(self, given: GivenInput | Recorded, granted: b.Json | None) -> Any:
        """Journal the beginning of the run; return the input for the code."""
        process, written = self.durable, self.durable.written
        is_first = written.agent is None
        begins = is_first and process.ahead_lifecycle in _BEGINNING
        if not begins and not process.cancellation.is_accepted:
            move_up(self.durable)
        if written.agent is None:
            text = self._first_input(given)
            agent, span = self.agent, None if process.tracer is None else process.tracer.current()
            process.send(
                b.AgentStarted(
                    agent.name, agent.version, agent.definition, text, span, process.options.spawned_by, granted
                )
            )  # fmt: skip
        else:
            text = written.agent.input_json
        if process.written.owner_deaths and not process.cancellation.is_accepted:
            from seekpoint.producers.durable.failures.owner_deaths import refuse_deaths

            refuse_deaths(process, self.agent)
        process.begin_replay()
        return rebuilt_input(self.agent, text, process.process_id, is_first=is_first)

    def _first_input(self, given: GivenInput | Recorded) -> b.Json:
        """Return the input of a process as which no agent has begun: what is given, or what was submitted."""
        limits = self.durable.limits
        if not isinstance(given, Recorded):
            return given.text(limits)
        submission = self.durable.written.submission
        if submission is not None:
            return submission.input_json
        return journaled_input(self.agent, self.agent.default_input, limits, self.process.process_id)

    def _check(self, given: GivenInput | Recorded) -> None:
        """Check again after the claim: the former owner may have begun the process meanwhile."""
        process, began = self.durable, self.durable.written.agent
        refuse_mismatch(process.process_id, process.written, self.agent, given, process.limits, self.new)
        if began is not None and self.agent.pinned and began.definition != self.agent.definition:
            raise ReplayDivergence(
                "the agent is not run as it began", process_id=self.durable.process_id, key="", kind="definition",
                expected=began.definition, actual=self.agent.definition, version=self.agent.version,
            )  # fmt: skip

    # --- the end
    async def _finish(self, text: b.Json) -> None:
        self._note_parent_answers()
        await self.durable.end(b.Finished(text))

    async def _take_back(self, error: BaseException) -> None:
        """Compensate the effects of a run whose code failed. A run that can be resumed owes nothing yet."""
        failed = not isinstance(error, SeekpointError) or isinstance(error, EffectFailed | EffectDuplicate)
        if not failed or not self.durable.session.is_open:
            return
        from seekpoint.producers.durable.effects.compensation_runs import compensate, mark_code_failed

        mark_code_failed(self.durable)
        with suppress(ObligationStuck):  # they stay in the state, and the agent's own error says more
            await compensate(self.durable)

    def _retry_at_us(self, error: BaseException) -> int | None:
        """Return when a worker tries the failed run again; None if it does not."""
        retry, failures = self.agent.retry, self.durable.written.run_failures
        attempt = 1 if failures is None else failures.count + 1
        helps = isinstance(error, StepFailed) or not isinstance(error, OperatorRequired)
        if retry is None or not helps or not retry.allows(attempt, error):
            return None
        return self.durable.clock.now_us() + int(retry.wait_s(attempt, random.random()) * 1_000_000)

    def _note(self, error: BaseException, retry_at_us: int | None) -> None:
        """Write the lifecycle that follows from ``error``. The error itself is recorded when the process is left."""
        process = self.durable
        outside = isinstance(error, HandleLost | Retryable) and not isinstance(error, EffectHeld)
        if outside or not process.session.is_open or process.cancellation.is_accepted:
            return
        if isinstance(error, BudgetExceeded) and process.ahead_lifecycle is Lifecycle.SUSPENDED:
            return
        to = Lifecycle.AWAITING if isinstance(error, EffectUnknown) else Lifecycle.FAILED
        with suppress(SeekpointError):
            self._note_parent_answers()
            if process.ahead_lifecycle in _BEFORE_RUN:
                move_up(self.durable)  # what asked for the run is carried out, also where its beginning failed
            process.send(b.LifecycleChanged(to, retry_at_us=retry_at_us if to is Lifecycle.FAILED else None))

    def _note_parent_answers(self) -> None:
        if self.durable.matcher.asked_aside:
            from seekpoint.producers.durable.replay.parent_answers import note_parent_answers

            note_parent_answers(self.durable)


class _HeldError(Exception):
    """Somebody has suspended the process, and its code was stopped. It may have been resumed since ``state``."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state


_LOOK_S = 1.0
"""How often a run looks whether its process was suspended. A worker follows the whole partition instead."""
_ENVELOPE_BYTES = 2_048
"""An upper bound of the bytes of an entry without its body."""
_L = Lifecycle
_UP = (_L.STARTING, _L.RUNNING)
_WAYS_UP: dict[Lifecycle, tuple[Lifecycle, ...]] = {
    _L.CREATED: _UP,
    _L.STARTING: (_L.RUNNING,),
    _L.SUSPENDED: (_L.RUNNING,),
    _L.AWAITING: (_L.RUNNING,),
    _L.STOPPING: (_L.STOPPED, *_UP),
    _L.STOPPED: _UP,
    _L.FAILED: _UP,
}
"""The lifecycles to pass through on the way to ``running``."""
_BEFORE_RUN = frozenset({_L.CREATED, _L.STARTING, _L.FAILED})
_BEGINNING = frozenset({_L.CREATED, _L.STARTING})
"""The lifecycles from which ``AgentStarted`` by itself leads to ``running``."""
