"""Rewind a process, fork it, give a call another answer, promote a fork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import Meta, to_builtins

from seekpoint.console.render.history_plans import plan_lines, rewind_head, rewind_steps
from seekpoint.console.services.arguments.moment_options import moment_of
from seekpoint.console.services.calls.send_and_confirm import with_node
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
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.producers import Node
    from seekpoint.producers.history.forks import ForkPlan
    from seekpoint.producers.history.history_points import HistoryPoint
    from seekpoint.producers.history.promoting import PromotePlan
    from seekpoint.producers.history.rewinding import RewindPlan

__all__ = ["ACTIONS"]

_Number = Annotated[int, Meta(ge=1, le=9_000_000_000_000_000)]


class MomentActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A moment of a process's past, named by one of seq, time, before, after and turn; and another answer to a call."""

    id: ProcessId
    seq: _Number | None = None
    time: Annotated[str, Meta(max_length=60)] | None = None
    """So long ago (``2h``), or a date."""
    before: Key | None = None
    """Before this call began."""
    after: Key | None = None
    """After this call ended."""
    turn: _Number | None = None
    answer_key: Key | None = None
    """The call that gets another answer. Without a moment it is the end of this call."""
    answer: Annotated[str, Meta(max_length=50_000)] | None = None
    """The other answer, as JSON."""

    def moment(self) -> HistoryPoint | None:
        """Return the moment; None: none was named. Raises ``BadRequest``."""
        try:
            return moment_of(seq=self.seq, time=self.time, before=self.before, after=self.after, turn=self.turn)
        except (typer.BadParameter, OverflowError, OSError, ValueError) as exc:
            named = "name the moment by one of seq, time, before, after and turn"
            raise BadRequest(400, "BadBody", f"{str(exc)[:200]}", named) from None

    def answers(self) -> dict[str, Any]:
        """Return the other answer by the key of its call. Raises ``BadRequest``."""
        if (self.answer_key is None) != (self.answer is None):
            raise BadRequest(
                400, "BadBody", "another answer needs the key of its call, and JSON", "give both, or neither"
            )
        return {} if self.answer_key is None else {self.answer_key: json_in(self.answer, "the answer")}


# --- rewind
class RewindActionRequest(MomentActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to rewind: the point to go back to, and the mode."""

    mode: Literal["both", "conversation_only", "code_only", "summarize"] = "both"
    effects: Literal["keep"] | None = None
    """Effects that followed an answer that is replaced stay, as facts that the code may read."""
    note: Annotated[str, Meta(max_length=50_000)] | None = None
    """With the mode ``summarize``: the message to add."""
    take_over: bool = False
    """Even though its owner looks alive."""


async def _draw_rewind(visit: Visit, request: RewindActionRequest, planned: Planned | None) -> Drawn:
    how = _rewind_options(request)
    plan: RewindPlan = await _with_node(visit, lambda node: node.rewind(request.id, dry_run=True, **how))
    kinds = {"keeps": "keeps", "answers": "does"}
    lines = [PlanLine("does", rewind_head(plan))]
    lines += [PlanLine(kinds.get(word, "drops"), f"{word} {text}") for word, text in rewind_steps(plan)]
    if plan.cost_usd is not None:
        lines.append(PlanLine("drops", f"what is forgotten had cost ${plan.cost_usd}"))
    if plan.answers and plan.effects and request.effects is None:
        lines.append(PlanLine("warns", "effects followed the answer that is replaced: it is refused unless they stay"))
    facts = to_builtins(plan)
    owner = (await _standing(visit, request.id))["owner_node"]
    if owner is not None:
        how_on = "is taken away from its owner" if request.take_over else "is refused while its owner looks alive"
        lines.append(PlanLine("warns", f"{owner} owns the process: it {how_on}"))
    lines.append(PlanLine("keeps", "the history stays; the next run goes on from there, a worker by itself"))
    return Drawn(title=f"Rewind {request.id} to seq {plan.to_seq}", lines=lines, facts={**facts, "owner_node": owner})


async def _rewind(visit: Visit, request: RewindActionRequest, plan: Planned) -> ActionOutcome:
    actor = visit.identity.name
    how = _rewind_options(request) | {
        "reason": request.reason, "actor": actor, "take_over": request.take_over, "expected_seq": plan.facts["seq"],
    }  # fmt: skip
    done: RewindPlan = await _with_node(visit, lambda node: node.rewind(request.id, **how))
    return ActionOutcome(
        text=f"{request.id}: rewound to seq {done.to_seq}, as {actor}",
        links=(Link("the process", process_address(request.id)), Link("calls", process_address(request.id, "calls"))),
        facts={**to_builtins(done), "actor": actor},
    )  # fmt: skip


def _rewind_options(request: RewindActionRequest) -> dict[str, Any]:
    return {
        "to": request.moment(), "mode": request.mode, "answers": request.answers(), "effects": request.effects,
        "note": request.note,
    }  # fmt: skip


# --- fork
class ForkActionRequest(MomentActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that begins with what another one has, or had."""

    new_id: ProcessId
    effects: Literal["refused", "recorded", "live"] = "refused"
    """What becomes of effects that no record answers."""
    permissive: bool = False
    """Equal requests are answered by what the parent did later."""


async def _draw_fork(visit: Visit, request: ForkActionRequest, planned: Planned | None) -> Drawn:
    from seekpoint.schemas.errors import Refused

    named_process_key(request.new_id)
    recoverer = visit.parts.target.recoverer
    if (await visit.parts.in_thread(lambda: recoverer.recover(request.new_id, missing_ok=True))).known:
        raise Refused(
            "the id of the fork is in use", process_id=request.new_id, hint="choose an id that was never used"
        )
    how = _fork_options(request, planned)
    plan: ForkPlan = await _with_node(visit, lambda node: node.plan_fork(request.id, **how))
    head, inherits, *more = plan_lines(plan, request.new_id)
    lines = [PlanLine("does", head), PlanLine("keeps", inherits.strip())]
    lines += [PlanLine("warns" if line.startswith("  in doubt") else "does", " ".join(line.split())) for line in more]
    if request.effects == "live":
        lines.append(PlanLine("warns", "effects that no record answers are made for real"))
    lines.append(PlanLine("does", "the fork is released: a worker goes on with it"))
    return Drawn(title=f"Fork {request.id} as {request.new_id}", lines=lines, facts=to_builtins(plan))


async def _fork(visit: Visit, request: ForkActionRequest, plan: Planned) -> ActionOutcome:
    actor, how = visit.identity.name, _fork_options(request, plan)

    async def fork(node: Node) -> None:
        async with node.fork(request.id, request.new_id, reason=request.reason, actor=actor, **how):
            pass

    await _with_node(visit, fork)
    return ActionOutcome(
        text=f"{request.new_id}: forked from {request.id} at seq {plan.facts['parent_seq']}, as {actor}",
        links=(Link("the fork", process_address(request.new_id)), Link("its parent", process_address(request.id))),
        facts={**plan.facts, "process_id": request.new_id, "actor": actor},
    )  # fmt: skip


def _fork_options(request: ForkActionRequest, planned: Planned | None) -> dict[str, Any]:
    """Return how to fork: at the moment that the dry run showed, because the parent may have gone on since."""
    at: HistoryPoint | int | None = request.moment() if planned is None else planned.facts["parent_seq"]
    return {"at": at, "answers": request.answers(), "effects": request.effects, "permissive": request.permissive}


# --- promote
class PromoteActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fork that is merged into its parent."""

    id: ProcessId
    prefer: Literal["fork", "parent"] | None = None
    """Who wins where both have changed a part."""
    take_over: bool = False
    """Even though the parent's owner looks alive."""


async def _draw_promote(visit: Visit, request: PromoteActionRequest, planned: Planned | None) -> Drawn:
    plan: PromotePlan = await _with_node(
        visit, lambda node: node.promote(request.id, prefer=request.prefer, dry_run=True)
    )
    lines = [PlanLine("does", f"takes {part} of {plan.fork_id} into {plan.parent_id}") for part in plan.taken]
    lines += [PlanLine("keeps", f"keeps {part} of {plan.parent_id}") for part in plan.kept]
    lines += [PlanLine("drops", f"both changed {part}: the {side} wins") for part, side in plan.resolved.items()]
    lines += [
        PlanLine("warns", f"both changed {part}: it is refused, unless you say who wins") for part in plan.conflicts
    ]
    lines.append(PlanLine("keeps", "the fork stays; no effect is made again"))
    facts = {**to_builtins(plan), "parent": await _standing(visit, plan.parent_id)}
    return Drawn(title=f"Promote {plan.fork_id} into {plan.parent_id}", lines=lines, facts=facts)


async def _promote(visit: Visit, request: PromoteActionRequest, plan: Planned) -> ActionOutcome:
    actor = visit.identity.name
    done: PromotePlan = await _with_node(
        visit,
        lambda node: node.promote(
            request.id, prefer=request.prefer, reason=request.reason, actor=actor, take_over=request.take_over
        ),
    )
    return ActionOutcome(
        text=f"{done.fork_id} is merged into {done.parent_id}, as {actor}",
        links=(Link("the parent", process_address(done.parent_id)), Link("the fork", process_address(done.fork_id))),
        facts={**to_builtins(done), "actor": actor},
    )  # fmt: skip


async def _with_node(visit: Visit, call: Any) -> Any:
    settings = visit.parts.target.settings
    return await visit.parts.in_thread(lambda: with_node(settings, call))


async def _standing(visit: Visit, process_id: str) -> dict[str, Any]:
    recoverer = visit.parts.target.recoverer
    return standing((await visit.parts.in_thread(lambda: recoverer.recover(process_id, must_be_current=True))).state)


ACTIONS = (
    Action(
        name="rewind", summary="Go back in a process to an earlier moment.", request=RewindActionRequest,
        draw=_draw_rewind, act=_rewind,
    ),
    Action(
        name="fork", summary="Begin another process with what one had at a moment of its past.",
        request=ForkActionRequest, draw=_draw_fork, act=_fork,
    ),
    Action(
        name="promote", summary="Merge what a fork did into its parent.", request=PromoteActionRequest,
        draw=_draw_promote, act=_promote,
    ),
)  # fmt: skip
