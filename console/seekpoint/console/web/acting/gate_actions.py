"""Approve and deny gates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from seekpoint.console.render.gate_rows import prompt_text
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.web.acting.actions import (
    Action,
    ActionRequest,
    Key,
    ProcessId,
    json_in,
    process_address,
    standing,
)
from seekpoint.console.web.acting.plans import ActionOutcome, Drawn, Link, PlanLine
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.json_texts import shortened

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.producers.durable.waits.gate_answers import OpenGate


class GateActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to an open gate."""

    id: ProcessId
    gate: Key
    """Its key, or its name: then the one that was opened first."""
    answer: Annotated[str, Meta(max_length=50_000)] | None = None
    """A JSON object with what else the code wants to know. It is sent beside the yes or no."""


async def _draw(is_approved: bool, visit: Visit, request: GateActionRequest, planned: Planned | None) -> Drawn:
    payload = _payload(visit, request, is_approved)
    facts = await visit.parts.in_thread(gate_facts, visit.parts.target, request.id, request.gate)
    key = facts["gate"]
    lines = [
        PlanLine("does", f"answers {key} with {'yes' if is_approved else 'no'}, as {visit.identity.name}"),
        PlanLine("keeps", f"it asked: {shortened(prompt_text(facts['prompt']), 2_000)}"),
    ]
    if request.answer is not None:
        lines.append(PlanLine("does", f"sends {prompt_text(payload)}"))
    if facts["deadline"] is not None:
        lines.append(PlanLine("warns", f"an answer that comes after {facts['deadline']} does not count"))
    title = f"{'Approve' if is_approved else 'Deny'} {key} of {request.id}"
    return Drawn(title=title, lines=lines, facts=facts)


async def _act(is_approved: bool, visit: Visit, request: GateActionRequest, plan: Planned) -> ActionOutcome:
    payload, actor = _payload(visit, request, is_approved), visit.identity.name
    key, signal_id = plan.facts["gate"], bytes.fromhex(plan.plan_id)

    def send() -> bytes:
        return with_client(
            visit.parts.target.settings,
            lambda client: client.signal(request.id, key, payload, actor=actor, signal_id=signal_id),
        )

    await visit.parts.in_thread(send)
    outcome = "approved" if is_approved else "denied"
    return ActionOutcome(
        text=f"{request.id}: {key} {outcome}, as {actor}",
        links=(Link("the process", process_address(request.id)), Link("what else waits", "/waiting")),
        facts={"gate": key, "outcome": outcome, "actor": actor, "signal_id": signal_id.hex()},
    )  # fmt: skip


def gate_facts(target: CommandTarget, process_id: str, gate: str) -> dict[str, Any]:
    """Return the question of an open gate, with since when and until when it waits. Blocks.

    Raises ``UnknownProcess``, ``ProcessFinished``, and ``GateNotOpen``, also for one that has an answer already.
    """
    from seekpoint.producers.durable.waits.gate_answers import gate_to_answer, opened_us
    from seekpoint.schemas.values.clock import iso_time

    found: OpenGate | None = gate_to_answer(target.recoverer, process_id, gate)
    assert found is not None  # None is for code that receives; it is not asked for
    since = opened_us(target.recoverer, process_id, found)
    return {
        "process_id": process_id,
        "gate": found.key,
        "name": found.name,
        "prompt": found.prompt,
        "since": None if since is None else iso_time(since),
        "deadline": None if found.deadline_us is None else iso_time(found.deadline_us),
        "opened_at_seq": found.seq,
        **standing(target.recoverer.recover(process_id, must_be_current=True).state),
    }


def _payload(visit: Visit, request: GateActionRequest, is_approved: bool) -> dict[str, Any]:
    from seekpoint.producers.durable.waits.gate_answers import verdict_payload
    from seekpoint.schemas.errors import Refused

    answer = json_in(request.answer, "the answer")
    try:
        return verdict_payload(is_approved, visit.parts.target.scrub(request.reason), answer)
    except Refused as exc:
        raise BadRequest(400, "BadBody", exc.message, exc.hint or "") from exc


ACTIONS = tuple(
    Action(
        name=name, summary=f"{name.capitalize()} an open gate.", request=GateActionRequest,
        draw=partial(_draw, is_approved), act=partial(_act, is_approved),
    )
    for name, is_approved in (("approve", True), ("deny", False))
)  # fmt: skip
