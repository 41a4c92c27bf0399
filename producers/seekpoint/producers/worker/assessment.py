"""Decide from the state of a process that nobody owns what a worker has to do about it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.schemas import bodies as b
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

__all__ = ["Assessment", "Next", "assess"]


class Next(Enum):
    """What a worker does about a process."""

    RUN = "begin its agent, or go on with it"
    WAIT = "nothing before a moment, or before mail comes"
    LEAVE = "nothing: a person, or a worker with other code, has to act"
    FORGET = "nothing ever again"


class Assessment(FrozenStruct, frozen=True):
    """The answer to what a worker has to do about one process."""

    next: Next
    agent: str = ""
    """The agent to run."""
    due_us: int | None = None
    """When to look again, in microseconds since 1970, although nothing came; None: only when something comes."""
    priority: int = 0
    reason: str = ""
    """Why it is left alone, or what it waits for."""
    begins: bool = False
    """Whether the run is a new one."""
    children: tuple[str, ...] = ()
    """The child processes whose end it waits for."""


_FORGET = Assessment(Next.FORGET)
_ENDED = frozenset({Lifecycle.STOPPED, Lifecycle.STOPPING})


def assess(
    state: State,
    agents: Mapping[str, Agent],
    now_us: int,
    seen: Collection[bytes] = frozenset(),
    ended: Collection[str] = frozenset(),
    *,
    is_idle: bool = False,
) -> Assessment:
    """Say what is next for a process that nobody owns, or whose owner is dead.

    ``agents``: those that this worker has code for, by name. ``seen``: the ids of mail that the process's code has
    looked at and left; other mail in the mailbox wakes a process that waits. ``ended``: the child processes that are
    known to have ended, or not to exist. ``is_idle``: the process is owned, and known to wait. Else a process that
    nobody released may have been cut off between its waits.
    """
    if state.finished:
        return _FORGET
    if state.degraded is not None:
        return _left(f"degraded: {state.degraded.reason}")
    if state.is_on_hold:
        return _left("suspended")
    cancel = any(item.kind == b.CancelRequested.KIND for item in state.mailbox.values())
    if state.agent is None:
        return _submitted(state, agents, now_us, cancel)
    is_released = is_idle or state.owner is None
    return _begun(state, agents, now_us, cancel, seen, ended, is_released)


def _submitted(state: State, agents: Mapping[str, Agent], now_us: int, cancel: bool) -> Assessment:
    wanted = state.submission
    if wanted is None:
        return _left("no agent was submitted")
    if wanted.agent not in agents:
        return _left(f"no code for the agent {wanted.agent}")
    if wanted.start_at_us is not None and wanted.start_at_us > now_us and not cancel:
        return Assessment(Next.WAIT, wanted.agent, wanted.start_at_us, wanted.priority, "the start", begins=True)
    return Assessment(Next.RUN, wanted.agent, None, wanted.priority, begins=True)


def _begun(
    state: State, agents: Mapping[str, Agent], now_us: int, cancel: bool, seen: Collection[bytes],
    ended: Collection[str], is_released: bool,
) -> Assessment:  # fmt: skip
    began, lifecycle = state.agent, state.lifecycle
    assert began is not None
    agent = agents.get(began.name)
    if agent is None:
        return _left(f"no code for the agent {began.name}")
    if agent.pinned and agent.definition != began.definition:
        return _left(f"pinned to the definition {began.definition[:12]} of {began.name} {began.version}")
    run = Assessment(Next.RUN, began.name)
    if cancel or (state.cancelled is not None and lifecycle is not Lifecycle.STOPPED):
        return run  # a process that is stopping may have compensations to make
    if lifecycle in _ENDED:
        return _FORGET if state.cancelled is not None else _left("stopped")
    if lifecycle is Lifecycle.SUSPENDED and state.hold is None:
        return _left("suspended by its budget")
    if lifecycle is Lifecycle.FAILED:
        return _failed(state, began.name, now_us)
    if lifecycle is not Lifecycle.AWAITING or not is_released or state.mailbox.keys() - seen:
        return run
    open_calls = state.open_calls
    if any(_goes_on(call, agents, ended) for call in open_calls.values()):
        return run
    due_us = min((due for call in open_calls.values() if (due := _due_us(call)) is not None), default=None)
    if due_us is not None and due_us <= now_us:
        return run
    children = tuple(call.facts["child_id"] for call in open_calls.values() if call.kind == "child")
    return Assessment(Next.WAIT, began.name, due_us, 0, ", ".join(sorted(open_calls)) or "mail", children=children)


def _failed(state: State, agent: str, now_us: int) -> Assessment:
    if state.redrive is not None:
        return Assessment(Next.RUN, agent)
    due_us = None if state.run_failures is None else state.run_failures.retry_at_us
    if due_us is None:
        return _left("failed")
    return Assessment(Next.RUN if due_us <= now_us else Next.WAIT, agent, due_us, 0, "the next attempt")


def _goes_on(call: Call, agents: Mapping[str, Agent], ended: Collection[str]) -> bool:
    """Whether an open call needs the process to run.

    A timer, a gate, a receive whose answer was refused and an effect that a person settles do not, nor does a child
    that some worker runs. A child whose agent this worker does not have runs beside its parent.
    """
    if call.kind == "child":
        return call.facts["agent"] not in agents or call.facts["child_id"] in ended
    return call.kind not in ("timer", "gate", "receive") and call.status not in ("unknown", "stuck")


def _due_us(call: Call) -> int | None:
    if call.kind == "timer":
        return int(call.facts["fires_at_us"])
    deadline = call.facts.get("deadline_us") if call.kind == "gate" else None
    return None if deadline is None else int(deadline)


def _left(reason: str) -> Assessment:
    return Assessment(Next.LEAVE, reason=reason)
