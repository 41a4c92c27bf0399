"""Run a process that has ended again, as a new one: with other code, on another model or with another input.

    fork at the start + records of all calls of the first run  -> the agent's code -> comparison with the first run

The first run's records answer equal requests, so what did not change costs nothing; no effect is made. The model that
the requests name is the only thing in them that a rerun changes by itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, conduct_of
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.durable.steps.agent import Agent, check_is_agent
from seekpoint.producers.durable.steps.agent_values import rebuilt_result
from seekpoint.producers.history.comparing import ProcessDiff, calls_made, compare_runs
from seekpoint.producers.history.fork_origins import ReadHistory
from seekpoint.producers.history.forks import ForkPlan, ForkRequest, RunAgain, fork_of, forked_by
from seekpoint.producers.history.history_reads import HistoryReads
from seekpoint.producers.opening import Opener, Opening, OpenRequest, wait_for_death_s
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import HandleLost, InvalidSetting, InvalidValue, Refused, Retryable
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.values.json_values import load
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.node_runtime import NodeRuntime
    from seekpoint.schemas.state.process_state import State

_LABEL = "~"
"""Stands between the id of a process and the label of its rerun."""


class RerunRequest(FrozenStruct, frozen=True, kw_only=True):
    """The choice of what to run again, and of what is different. Raises ``InvalidSetting``."""

    process_id: str
    rerun_id: str
    agent: Agent
    model: str | None = None
    input_json: b.Json | None = None
    """Another input than the first run's."""
    effects: str = "recorded"
    timeout_s: float | None = None
    reason: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        check_is_agent(self.agent)
        if self.effects not in ("recorded", "refused"):
            raise InvalidSetting(
                "a rerun makes no effects", found=repr(self.effects)[:80], known=["recorded", "refused"]
            )


class Rerun(FrozenStruct, frozen=True, kw_only=True):
    """A rerun beside the run that it repeats."""

    process_id: str
    """The process that was run again."""
    rerun_id: str
    agent: str
    model: str | None
    """The model that the requests named; None: their own."""
    status: str
    """``finished``, ``failed``, or the lifecycle in which the rerun was left."""
    result: Any
    """None if it has none."""
    error: str | None
    """Why it failed, or that it took too long."""
    first_status: str
    first_result: Any
    first_error: str | None
    answers: dict[str, Any]
    """What its decisions answered, by their keys: also of a rerun that has no result, because it wanted another effect
    than the first run made."""
    first_answers: dict[str, Any]
    difference: ProcessDiff
    """Left: the first run. It has the cost of both: a call that a record answered cost nothing."""

    @property
    def is_same_outcome(self) -> bool:
        """Whether both ended alike: the same status and the same result."""
        return (self.status, self.result) == (self.first_status, self.first_result)


def rerun_id_of(process_id: str, label: str) -> str:
    """Return the id of the rerun of a process under a label, which is always the same.

    >>> rerun_id_of("case-17", "large-2026")
    'case-17~large-2026'
    """
    return f"{process_id}{_LABEL}{label}"


async def plan_rerun(runtime: NodeRuntime, request: RerunRequest) -> ForkPlan:
    """Return what the rerun would begin with; nothing is written."""
    history, first = await HistoryReads(runtime).read(request.process_id, partial(_folded, runtime))
    fork = _fork_request(request, _first_run(request, first))
    return (await fork_of(runtime, fork, history, looks_ahead=True)).plan


async def rerun(
    runtime: NodeRuntime,
    opener: Opener,
    request: RerunRequest,
    run: Callable[[Opening], Awaitable[Any]],
    reads: HistoryReads,
) -> Rerun:
    """Run the process again to its end, or go on with a rerun that was interrupted; return the comparison.

    A rerun that has ended is not begun again. What the agent raises is in the result, the journal's errors are raised.
    """
    history, first = await reads.read(request.process_id, partial(_folded, runtime))
    fork = _fork_request(request, _first_run(request, first))
    known, start = await _rerun_now(runtime, request.rerun_id)
    error = None
    if known.seq > 0:
        _check_same(request, known, fork)
    if not (known.finished or known.lifecycle is Lifecycle.FAILED):
        begins = partial(forked_by, runtime, fork, history) if known.seq == 0 else None
        error = await _ended(runtime, request, run(opener.opening(_opening(runtime, request, begins))))
    limits = runtime.reader.limits
    again = await reads.read(request.rerun_id, lambda entries: RecordedRun.of(entries, limits), start=start)
    result, first_result = _results(request, again, first)
    return Rerun(
        process_id=request.process_id, rerun_id=request.rerun_id, agent=request.agent.name, model=request.model,
        status=_status(again), result=result, error=_error(again) or error, first_status=_status(first),
        first_result=first_result, first_error=_error(first), answers=_answers(again),
        first_answers=_answers(first), difference=compare_runs(first, again),
    )  # fmt: skip


def _folded(runtime: NodeRuntime, entries: list[Logged]) -> tuple[ReadHistory, RecordedRun]:
    """Return a history with what its fold found, so that the fork needs no other fold."""
    run = RecordedRun.of(entries, runtime.reader.limits, needs_agent=False)
    return ReadHistory(entries, run.ended), run


async def _rerun_now(runtime: NodeRuntime, rerun_id: str) -> tuple[State, int]:
    """Return the state of the rerun, and an offset below which it has no entry."""
    found = await runtime.recover(rerun_id, missing_ok=True)
    return found.state, 0 if found.known else found.report.log_end


def _first_run(request: RerunRequest, first: RecordedRun) -> RecordedRun:
    if first.state.agent is None:
        raise Refused("no agent ran as the process: there is nothing to run again", process_id=request.process_id)
    if first.state.cancelled is not None:
        raise Refused(
            "the run was cancelled: it has no outcome to compare with", process_id=request.process_id,
            hint=f"fork it: seekpoint fork {pasted(request.process_id)} NEW_ID",
        )  # fmt: skip
    if first.result_json is None and first.state.lifecycle is not Lifecycle.FAILED:
        raise Refused(
            "the run has not ended", process_id=request.process_id, lifecycle=str(first.state.lifecycle),
            hint="wait for its end, or fork it",
        )  # fmt: skip
    return first


def _fork_request(request: RerunRequest, first: RecordedRun) -> ForkRequest:
    assert first.state.agent is not None
    again = RunAgain(
        process_id=request.process_id, agent=request.agent.name, version=request.agent.version,
        definition=request.agent.definition, model=request.model,
        input_json=first.state.agent.input_json if request.input_json is None else request.input_json,
    )  # fmt: skip
    return ForkRequest(
        parent_id=request.process_id, effects=request.effects, permissive=True, again=again, reason=request.reason,
        actor=request.actor,
    )  # fmt: skip


def _check_same(request: RerunRequest, known: State, fork: ForkRequest) -> None:
    """Raise ``Refused`` if the id belongs to something else than this rerun."""
    again, lineage, agent = fork.again, known.lineage, known.agent
    assert again is not None
    found = (lineage.rerun_of, lineage.model, lineage.effects, agent and agent.name, agent and agent.input_json)
    if found != (request.process_id, request.model, request.effects, again.agent, again.input_json):
        raise Refused(
            "the id belongs to another process, or to a rerun with another agent, model, input or effects",
            process_id=request.rerun_id, hint="choose another id",
        )  # fmt: skip


def _opening(
    runtime: NodeRuntime, request: RerunRequest, begins: Callable[[], Awaitable[b.Forked]] | None
) -> OpenRequest:
    """Return how the rerun is opened: a new one begins as a fork, another one is claimed once its owner is dead."""
    return OpenRequest(
        process_id=request.rerun_id, cause=Cause(actor=request.actor), wait_s=wait_for_death_s(runtime.settings),
        inherit=begins,
        options=conduct_of(request.agent, ReplayMode.STRICT, Detail.FULL),
    )  # fmt: skip


async def _ended(runtime: NodeRuntime, request: RerunRequest, run: Awaitable[Any]) -> str | None:
    """Return once the run has ended, with the error of one that failed or took too long."""
    timer = asyncio.timeout(request.timeout_s)
    try:
        async with timer:
            await run
    except (HandleLost, Retryable):
        raise
    except Exception as exc:
        if isinstance(exc, TimeoutError) and timer.expired():
            return f"it did not end in {request.timeout_s:g} s"
        return await _failure(runtime, request, exc)
    return None


async def _failure(runtime: NodeRuntime, request: RerunRequest, error: Exception) -> str:
    """Return the agent's error as a text; raise an error that did not end the run."""
    state = (await runtime.recovery.recover(request.rerun_id, must_be_current=True)).state
    if state.seq == 0 or state.lifecycle not in (Lifecycle.FAILED, Lifecycle.AWAITING):
        raise error
    return f"{type(error).__name__}: {error}"


def _status(run: RecordedRun) -> str:
    return str(run.state.lifecycle) if run.result_json is None else "finished"


def _results(request: RerunRequest, again: RecordedRun, first: RecordedRun) -> tuple[Any, Any]:
    """Return both results as the agent returns them; both as plain values if one does not fit its code of now."""
    texts = (again.result_json or "null", first.result_json or "null")
    is_made = again.result_json is not None, first.result_json is not None
    try:
        one, other = (
            rebuilt_result(request.agent, text) if made else None for text, made in zip(texts, is_made, strict=True)
        )
    except InvalidValue:
        one, other = map(load, texts)
    return one, other


def _answers(run: RecordedRun) -> dict[str, Any]:
    made = calls_made(run).items()
    return {key: load(call.output) for key, call in made if call.kind == "decision" and call.output is not None}


def _error(run: RecordedRun) -> str | None:
    failure = run.state.failure
    if run.result_json is not None or failure is None:
        return None
    return f"{failure.type.rpartition('.')[2]}: {failure.message}"
