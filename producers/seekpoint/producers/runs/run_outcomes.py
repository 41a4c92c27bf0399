"""Decide from the state of a process whether its run is over, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seekpoint.producers.durable.failures.failure_classes import class_named
from seekpoint.producers.durable.failures.recorded_failures import error_name, recorded_failure
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import AgentMismatch, Cancelled, InputMisfit, RunFailed
from seekpoint.schemas.state.calls import AgentRun
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, State
from seekpoint.schemas.values.json_values import dump, load

_MESSAGE_CHARACTERS_MAX = 1_000
"""The longest message that a state keeps."""


def is_over(state: Draft) -> bool:
    """Whether the run has ended, and does not go on by itself."""
    return state.finished or is_cancelled(state) or has_failed(state)


def has_failed(state: Draft) -> bool:
    """Whether the run failed for good, and the failure is recorded: its entry comes behind that of the lifecycle."""
    failures, failure = state.run_failures, state.failure
    if state.lifecycle is not Lifecycle.FAILED or state.redrive is not None:
        return False
    if failures is not None and failures.retry_at_us is not None:
        return False
    return state.owner is None or (failure is not None and failures is not None and failure.seq > failures.seq)


def is_cancelled(state: Draft) -> bool:
    """Whether the run was cancelled and has stopped."""
    return state.cancelled is not None and state.lifecycle is Lifecycle.STOPPED


def run_result(process_id: str, state: State, rebuilt: Callable[[Json], Any] = load) -> Any:
    """Return the result of a run that is over, as ``rebuilt`` makes it. Raises ``Cancelled`` and ``RunFailed``."""
    if state.finished:
        return rebuilt(state.result_json or "null")
    if is_cancelled(state):
        raise Cancelled("the process was asked to stop", process_id=process_id, reason=state.cancelled or None)
    failure = state.failure
    if failure is None:
        raise RunFailed("the run failed", process_id=process_id)
    is_misfit = failure.type == error_name(InputMisfit(""), Settings())
    raise RunFailed(
        f"the run failed: {failure.type}: {failure.message}", process_id=process_id, type=failure.type,
        where=failure.where, hint=InputMisfit.hint if is_misfit else RunFailed.hint,
    )  # fmt: skip


def _begun(state: State) -> AgentRun:
    if state.agent is not None:
        return state.agent
    assert state.submission is not None  # the process has an identity
    return AgentRun(state.submission.agent, "", "", state.submission.input_json)


def failure_text_of(state: State) -> Json:
    """Return the failure of a run as ``failure_text`` writes it.

    The state of a process keeps class and message of the exception that left its code. If one of its calls failed with
    the same exception, the record of that call has all of it.
    """
    failure = state.failure
    if failure is None:
        return dump({"type": "", "message": "the run failed", "data": None, "retryable": False})
    for key, call in sorted(state.calls.items(), key=lambda one: -one[1].seq):
        if call.status == "failed" and call.error is not None:
            error = recorded_failure(call.error, key=key)
            text = str(error)[:_MESSAGE_CHARACTERS_MAX]
            if (error_name(error, Settings()), text) == (failure.type, failure.message[:_MESSAGE_CHARACTERS_MAX]):
                return call.error
    name = _class_name(failure.type)
    return dump({"type": name, "message": failure.message, "data": None, "retryable": False})


def _class_name(shown: str) -> str:
    """Return ``module:qualname`` for the name of a class as Python shows it."""
    parts = shown.split(".")
    if len(parts) == 1:
        return f"builtins:{shown}"
    names = [f"{'.'.join(parts[:at])}:{'.'.join(parts[at:])}" for at in range(len(parts) - 1, 0, -1)]
    return next((name for name in names if class_named(name) is not None), names[0])


def refuse_other_run(
    process_id: str, state: State, agent: str, digest: str, is_same: Callable[[AgentRun], bool] | None = None
) -> None:
    """Raise ``AgentMismatch`` if the process is that of another agent, or of another input.

    ``is_same`` says whether an input with another digest is the same one to the agent.
    """
    identity = state.run_identity
    if identity is None:
        if state.finished:
            raise AgentMismatch(
                "the process was finished by a program, not by an agent",
                kind="agent", process_id=process_id, asked=agent,
            )  # fmt: skip
        return
    name, found = identity
    if name != agent:
        raise AgentMismatch(
            "the process is another agent's", kind="agent", agent=name, process_id=process_id, asked=agent
        )
    if found != digest and not (is_same is not None and is_same(_begun(state))):
        raise AgentMismatch("the process began with another input", kind="input", process_id=process_id, asked=agent)
