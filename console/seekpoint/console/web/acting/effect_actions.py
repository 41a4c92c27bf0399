"""Say what became of an effect in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from seekpoint.console.services.calls.client_calls import plain_value, with_client
from seekpoint.console.services.facts.effect_details import effect_facts, unresolved_effect
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
from seekpoint.console.web.json_texts import short_json

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit


class SettleActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of an effect in doubt, as a person found it out."""

    id: ProcessId
    key: Key
    outcome: Literal["succeeded", "failed"]
    output: Annotated[str, Meta(max_length=50_000)] | None = None
    """Of one that succeeded: its result, as JSON; none: null."""


async def _draw(visit: Visit, request: SettleActionRequest, planned: Planned | None) -> Drawn:
    if request.outcome == "failed" and request.output is not None:
        raise BadRequest(400, "BadBody", "an effect that failed has no result", "leave the result out")
    output = json_in(request.output, "the result")
    facts = await visit.parts.in_thread(_facts, visit.parts.target, request)
    key = request.key
    if request.outcome == "succeeded":
        lines = [
            PlanLine("does", f"records that {key} happened, with the result {short_json(plain_value(output), 2_000)}"),
            PlanLine("keeps", f"{key} is not called again; the code goes on with this result"),
        ]
    else:
        lines = [
            PlanLine("does", f"records that {key} did not happen and will not: {request.reason}"),
            PlanLine("keeps", f"{key} is not called again; its call raises EffectFailed in the code"),
        ]
    lines.append(PlanLine("warns", f"nobody can take this back; {facts['attempts']} attempts were made"))
    if facts["owner_node"] is not None:
        lines.append(PlanLine("warns", f"{facts['owner_node']} owns the process and may be finding out itself"))
    return Drawn(title=f"Settle {key} of {request.id}", lines=lines, facts=facts)


async def _act(visit: Visit, request: SettleActionRequest, plan: Planned) -> ActionOutcome:
    actor = visit.identity.name
    how: dict[str, Any] = {
        "output": json_in(request.output, "the result"), "reason": request.reason, "actor": actor,
        "idempotency_key": plan.facts["idempotency_key"] or "",
    }  # fmt: skip

    def send() -> bytes:
        return with_client(
            visit.parts.target.settings,
            lambda client: client.verdict(request.id, request.key, request.outcome, **how),
        )

    await visit.parts.in_thread(send)
    text = f"{request.id} {request.key}: {request.outcome}, as {actor} says; the process settles it when it reaches it"
    return ActionOutcome(
        text=text, links=(Link("the process", process_address(request.id)), Link("what else waits", "/waiting")),
        facts={"key": request.key, "outcome": request.outcome, "actor": actor},
    )  # fmt: skip


def _facts(target: CommandTarget, request: SettleActionRequest) -> dict[str, Any]:
    state = target.recoverer.recover(request.id, must_be_current=True).state
    call = unresolved_effect(request.id, request.key, state)
    mail = [item for item in state.mailbox.values() if item.kind == "effect_verdict" and item.name == request.key]
    facts = effect_facts(request.id, request.key, call, state)
    return {**facts, **standing(state), "verdicts": [item.id.hex() for item in mail]}


ACTIONS = (
    Action(
        name="settle-effect", summary="Say what became of an effect in doubt.", request=SettleActionRequest, draw=_draw,
        act=_act,
    ),
)  # fmt: skip
