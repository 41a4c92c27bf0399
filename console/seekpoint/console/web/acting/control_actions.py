"""Cancel, suspend, resume and redrive one process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import counted
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.services.calls.control_checks import (
    refuse_cancelled,
    refuse_finished,
    refuse_on_hold,
    refuse_running,
)
from seekpoint.console.web.acting.actions import Action, ActionRequest, ProcessId, process_address, standing
from seekpoint.console.web.acting.plans import ActionOutcome, Drawn, Link, PlanLine

if TYPE_CHECKING:
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.producers import Client
    from seekpoint.schemas.state.process_state import State

__all__ = ["ACTIONS", "CANCEL", "REDRIVE", "SUSPEND", "ControlActionRequest", "Verb"]


class ControlActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that is told something."""

    id: ProcessId


class RedriveActionRequest(ControlActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The failed run that is tried again."""

    in_doubt: bool = False
    """Steps and decisions in doubt begin anew too, with all their attempts."""
    effect: str = ""
    """The key of a failed effect that is made again; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb that a process can be told. ``facts`` raises why not, or returns what its consequences depend on."""

    name: str
    past: str
    facts: Callable[[str, State], dict[str, Any]]
    lines: Callable[[str, dict[str, Any], Any], Iterator[PlanLine]]
    send: Callable[[Client, str, Any, str], Coroutine[Any, Any, bytes]]
    """Gets the client, the process, the request and the actor."""


async def _draw(verb: Verb, visit: Visit, request: ControlActionRequest, planned: Planned | None) -> Drawn:
    recoverer = visit.parts.target.recoverer
    found = await visit.parts.in_thread(lambda: recoverer.recover(request.id, must_be_current=True))
    facts = {**verb.facts(request.id, found.state), **standing(found.state)}
    title = f"{verb.name.capitalize()} {request.id}"
    return Drawn(title=title, lines=[*verb.lines(request.id, facts, request)], facts=facts)


async def _act(verb: Verb, visit: Visit, request: ControlActionRequest, plan: Planned) -> ActionOutcome:
    actor, settings = visit.identity.name, visit.parts.target.settings

    def send() -> bytes:
        return with_client(settings, lambda client: verb.send(client, request.id, request, actor))

    sent = await visit.parts.in_thread(send)
    return ActionOutcome(
        text=f"{request.id}: {verb.past}, as {actor}",
        links=(Link("the process", process_address(request.id)), Link("all processes", "/processes")),
        facts={"sent": sent.hex(), "actor": actor},
    )  # fmt: skip


# --- cancel
def _cancel_facts(process_id: str, state: State) -> dict[str, Any]:
    refuse_finished(process_id, state)
    refuse_cancelled(process_id, state)
    return {"owed": [one.key for one in state.owed], "in_doubt": list(state.in_doubt)}


def _cancel_lines(process_id: str, facts: dict[str, Any], request: Any) -> Iterator[PlanLine]:
    owner = facts["owner_node"]
    when = "when it is run again: nobody owns it" if owner is None else f"at the next call of its code on {owner}"
    yield PlanLine("does", f"stops {process_id}, {when}; it never goes on")
    for key in facts["owed"]:
        yield PlanLine("drops", f"compensates {key}")
    for key in facts["in_doubt"]:
        yield PlanLine("warns", f"{key} is in doubt: nobody knows whether it happened")


# --- suspend and resume
def _suspend_facts(process_id: str, state: State) -> dict[str, Any]:
    refuse_finished(process_id, state)
    refuse_on_hold(process_id, state)
    return {"on_hold": False}


def _suspend_lines(process_id: str, facts: dict[str, Any], request: Any) -> Iterator[PlanLine]:
    yield PlanLine("does", f"puts {process_id} on hold: no worker runs it before it is resumed")
    if facts["owner_node"] is not None:
        yield PlanLine("drops", f"a worker stops the run on {facts['owner_node']} at once, as a crash would")
    yield PlanLine("keeps", "what it recorded; timers go on, and count when it is resumed")


def _resume_facts(process_id: str, state: State) -> dict[str, Any]:
    refuse_finished(process_id, state)
    refuse_running(process_id, state)
    return {"on_hold": state.is_on_hold, "waits_for": sorted(state.waits_for)}


def _resume_lines(process_id: str, facts: dict[str, Any], request: Any) -> Iterator[PlanLine]:
    yield PlanLine("does", f"ends the hold of {process_id}; a worker goes on with it")
    if not facts["on_hold"]:
        yield PlanLine("warns", "its budget suspended it: it is suspended again unless the budget was raised")


# --- redrive
def _redrive_facts(process_id: str, state: State) -> dict[str, Any]:
    from seekpoint.producers.runs.failed_runs import run_to_redrive

    found = run_to_redrive(process_id, state)
    return {"failure": found.failure, "runs_failed": found.runs_failed, "in_doubt": found.in_doubt}


def _redrive_lines(process_id: str, facts: dict[str, Any], request: Any) -> Iterator[PlanLine]:
    failed = f"it failed {counted(facts['runs_failed'], 'time')}" if facts["failure"] else "it waits"
    yield PlanLine("does", f"tries {process_id} again on a worker, with the worker's code; {failed}")
    if facts["failure"]:
        yield PlanLine("keeps", f"the newest failure: {facts['failure']}")
    if facts["in_doubt"]:
        how = "begin anew, with all their attempts" if request.in_doubt else "are made with the attempts that are left"
        yield PlanLine("warns", f"{facts['in_doubt']} calls in doubt {how}")
    if effect := _effect_of(request):
        yield PlanLine("does", f"makes the effect {effect[0]} again, if its failure shows that it did nothing")
    yield PlanLine("keeps", "what succeeded; any other failed effect is not made again")


def _effect_of(request: Any) -> list[str]:
    """Return the key of the effect that a redrive of one process names; empty in one of many."""
    return [request.effect] if getattr(request, "effect", "") else []


CANCEL = Verb(
    name="cancel", past="asked to stop", facts=_cancel_facts, lines=_cancel_lines,
    send=lambda client, process_id, request, actor: client.cancel(process_id, request.reason, actor=actor),
)  # fmt: skip
SUSPEND = Verb(
    name="suspend", past="suspended", facts=_suspend_facts, lines=_suspend_lines,
    send=lambda client, process_id, request, actor: client.suspend(process_id, request.reason, actor=actor),
)  # fmt: skip
RESUME = Verb(
    name="resume", past="resumed", facts=_resume_facts, lines=_resume_lines,
    send=lambda client, process_id, request, actor: client.resume(process_id, request.reason, actor=actor),
)  # fmt: skip


async def _send_redrive(client: Client, process_id: str, request: Any, actor: str) -> bytes:
    effects = _effect_of(request)
    sent = await client.redrive(process_id, request.reason, in_doubt=request.in_doubt, effects=effects, actor=actor)
    assert sent is not None  # as in a dry run only
    return sent


REDRIVE = Verb(
    name="redrive", past="redriven", facts=_redrive_facts, lines=_redrive_lines,
    send=_send_redrive,
)  # fmt: skip

_SUMMARIES = {
    CANCEL: "Ask a process to stop and to compensate its effects.", SUSPEND: "Put a process on hold.",
    RESUME: "End the hold of a process.", REDRIVE: "Try a failed run again.",
}  # fmt: skip
ACTIONS = tuple(
    Action(
        name=verb.name, summary=summary, request=RedriveActionRequest if verb is REDRIVE else ControlActionRequest,
        draw=partial(_draw, verb), act=partial(_act, verb),
    )
    for verb, summary in _SUMMARIES.items()
)  # fmt: skip
