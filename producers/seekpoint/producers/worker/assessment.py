"""Decide from the state of a process that nobody owns what a worker has to do about it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from msgspec.structs import replace

from seekpoint.producers.durable.steps.agent import Agent
from seekpoint.producers.runs.run_outcomes import is_cancelled
from seekpoint.schemas import bodies as b
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State


class Next(Enum):
    """The action that a worker takes about a process."""

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
_OUTCOMES = frozenset({"evidence", b.EffectVerdict.KIND})
"""The kinds of mail that settle an effect in doubt."""


def assess(
    state: State,
    agents: Mapping[str, Agent],
    now_us: int,
    ended: Collection[str] = frozenset(),
    *,
    is_idle: bool = False,
) -> Assessment:
    """Say what is next for a process that nobody owns, or whose owner is dead.

    It asks what can still come of a process, not what was requested of it: the entries of a run that it asks for change
    the state so that it does not ask again, unless something comes or a moment is due.

    ``agents``: those that this worker has code for, by name. ``ended``: the child processes that are known to have
    ended, or not to exist. ``is_idle``: the process is owned, and its code is known to wait and to have looked at its
    mail. Else a process that nobody released may have been cut off between its waits.
    """
    began, wanted = state.agent, state.submission
    if state.finished or is_cancelled(state):
        return _FORGET
    if state.degraded is not None:
        return _left(f"degraded: {state.degraded.reason}")
    if state.is_on_hold:
        return _left("suspended")
    if began is None and wanted is None:
        return _left("no agent was submitted")
    name = began.name if began is not None else wanted.agent if wanted is not None else ""
    agent = agents.get(name)
    if agent is None:
        return _left(f"no code for the agent {name}")
    if began is not None and agent.pinned and agent.definition != began.definition:
        return _left(f"pinned to the definition {began.definition[:12]} of {name} {began.version}")
    priority = 0 if wanted is None else wanted.priority
    run = Assessment(Next.RUN, name, priority=priority, begins=began is None)
    return next_of(state, run, agents, now_us, ended, is_idle)


def next_of(
    state: State, run: Assessment, agents: Collection[str], now_us: int, ended: Collection[str] = frozenset(),
    is_idle: bool = False,
) -> Assessment:  # fmt: skip
    """Return ``run``, or what comes first. The process is neither over, degraded nor on hold, and there is code for it.

    ``agents``: the names of those that run apart from their parents.
    """
    lifecycle, wanted = state.lifecycle, state.submission
    if state.cancelled is None and any(item.kind == b.CancelRequested.KIND for item in state.mailbox.values()):
        return run  # a process is cancelled once: later requests stay in its mailbox
    if lifecycle is Lifecycle.FAILED:
        return _failed(state, now_us, run)
    if state.cancelled is not None:
        return run  # it may have compensations to make
    if lifecycle in _ENDED:
        return _left("stopped")
    if lifecycle is Lifecycle.SUSPENDED and state.hold is None:
        return _left("suspended by its budget")
    if wanted is not None and wanted.start_at_us is not None and wanted.start_at_us > now_us:
        return replace(run, next=Next.WAIT, due_us=wanted.start_at_us, reason="the start")
    if lifecycle is not Lifecycle.AWAITING:
        return run
    if not is_idle and (state.owner is not None or state.redrive is not None or state.unread_mail):
        return run
    if state.ended_in_doubt:
        return replace(run, next=Next.WAIT, reason="an effect in doubt")
    open_calls = state.open_calls
    if any(_goes_on(call, agents, ended) for call in open_calls.values()):
        return run
    due_us = min((due for call in open_calls.values() if (due := _due_us(call)) is not None), default=None)
    if due_us is not None and due_us <= now_us:
        return run
    children = tuple(call.facts["child_id"] for call in open_calls.values() if call.kind == "child")
    reason = ", ".join(sorted(open_calls)) or "mail"
    return replace(run, next=Next.WAIT, due_us=due_us, reason=reason, children=children)


def _failed(state: State, now_us: int, run: Assessment) -> Assessment:
    if state.redrive is not None:
        return run
    if state.cancelled is not None:  # compensations are still owed: only the outcome of one that is in doubt helps
        unread, unsettled = state.unread_mail, state.unsettled_calls
        settles = any(item.kind in _OUTCOMES and item.name in unsettled for item in unread)
        return run if settles else _left("compensations are still owed")
    due_us = None if state.run_failures is None else state.run_failures.retry_at_us
    if due_us is None:
        return _left("failed")
    return replace(run, next=Next.RUN if due_us <= now_us else Next.WAIT, due_us=due_us, reason="the next attempt")


def _goes_on(call: Call, agents: Collection[str], ended: Collection[str]) -> bool:
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
