"""Run a process that has ended again, with other code, another model or another input; and stop jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, to_builtins

from seekpoint.console.render.history_plans import plan_lines
from seekpoint.console.render.process_diffs import diff_rows, same_line
from seekpoint.console.services.calls.client_calls import plain_value
from seekpoint.console.services.calls.send_and_confirm import with_node
from seekpoint.console.web.acting.actions import Action, ActionRequest, ProcessId, json_in, process_address
from seekpoint.console.web.acting.jobs import Job
from seekpoint.console.web.acting.plans import ActionOutcome, Drawn, Link, PlanLine
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.json_texts import short_json
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.producers import Agent, Node, Rerun
    from seekpoint.producers.history.forks import ForkPlan

__all__ = ["ACTIONS"]


class RerunActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that is run again, and what is different."""

    id: ProcessId
    new_id: ProcessId | None = None
    """Of the rerun. By default ``PROCESS_ID~MODEL``, or ``PROCESS_ID~rerun``."""
    model: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The model that requests name instead of their own."""
    input: Annotated[str, Meta(max_length=50_000)] | None = None
    """Another input, as JSON."""
    effects: Literal["recorded", "refused"] = "recorded"
    timeout_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 300.0

    def options(self) -> dict[str, Any]:
        """Return what differs from the first run."""
        given = {} if self.input is None else {"input": json_in(self.input, "the input")}
        return {"model": self.model, "effects": self.effects, **given}


async def _draw(visit: Visit, request: RerunActionRequest, planned: Planned | None) -> Drawn:
    from seekpoint.producers.history.rerunning import rerun_id_of

    if request.new_id is not None:
        named_process_key(request.new_id)
    agent, how, settings = await _agent(visit, request.id), request.options(), visit.parts.target.settings
    plan: ForkPlan = await visit.parts.in_thread(
        lambda: with_node(settings, lambda node: node.plan_rerun(agent, request.id, **how))
    )
    name = request.new_id or rerun_id_of(request.id, request.model or "rerun")
    head, inherits, *more = plan_lines(plan, name)
    lines = [
        PlanLine("does", f"runs {head}"), PlanLine("keeps", inherits.strip()),
        *(PlanLine("does", " ".join(line.split())) for line in more),
        PlanLine("warns", f"the code of {agent.name} runs in the console: calls that no record answers may cost money"),
        PlanLine("keeps", "no effect is made"),
    ]  # fmt: skip
    facts = {**to_builtins(plan), "rerun_id": name, "version": agent.version}
    return Drawn(title=f"Run {request.id} again as {name}", lines=lines, facts=facts)


async def _act(visit: Visit, request: RerunActionRequest, plan: Planned) -> ActionOutcome:
    agent, parts = await _agent(visit, request.id), visit.parts
    job = Job("rerun", plan.title, visit.identity.name, request.reason)
    ways: dict[str, Any] = {
        **request.options(), "timeout_s": request.timeout_s, "reason": request.reason, "actor": visit.identity.name,
    }  # fmt: skip

    def work(job: Job) -> tuple[str, dict[str, Any]]:
        async def run(node: Node) -> Rerun:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            job.on_stop = lambda: loop.call_soon_threadsafe(task.cancel)
            if job.is_stopping:
                raise asyncio.CancelledError
            node.prices = parts.options.prices
            return await node.rerun(agent, request.id, plan.facts["rerun_id"], **ways)

        found = with_node(parts.target.settings, run)
        job.table = [*_table(found)]
        same = "the same outcome" if found.is_same_outcome else "another outcome"
        text = f"{found.rerun_id} is {found.status}, with {same}; {same_line(found.difference)}"
        return text, {**plain_value(to_builtins(found)), "is_same_outcome": found.is_same_outcome}

    parts.jobs.start(job, work)
    rerun = Link("the rerun", process_address(plan.facts["rerun_id"]))
    return ActionOutcome(
        text=f"{plan.facts['rerun_id']} runs, as {visit.identity.name}",
        links=(Link("its comparison", f"/job?id={job.id}"), rerun), facts={"job": job.id},
    )  # fmt: skip


def _table(found: Rerun) -> list[tuple[str, ...]]:
    """Return what differs: what it is, of the first run, of the rerun, and where it first differs."""
    rows = [tuple(map(str, row)) for row in diff_rows(found.difference)]
    rows.append(("result", _short(found.first_result), _short(found.result), ""))
    if found.error or found.first_error:
        rows.append(("error", found.first_error or "-", found.error or "-", ""))
    return [("", found.process_id, found.rerun_id, "first difference"), *rows]


def _short(value: Any) -> str:
    return "-" if value is None else short_json(plain_value(value), 500)


async def _agent(visit: Visit, process_id: str) -> Agent:
    recoverer, agents = visit.parts.target.recoverer, visit.parts.options.agents
    ran = (await visit.parts.in_thread(lambda: recoverer.recover(process_id))).state.agent
    name = None if ran is None else ran.name
    for one in agents:
        if one.name == name:
            found: Agent = one
            return found
    raise BadRequest(
        409, "NoAgentCode", f"the console has no code of the agent {name}" if name else "no agent ran as the process",
        "start the console with the module of the agent: seekpoint console -m MODULE",
    )  # fmt: skip


# --- stopping
class StopActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job that ends early."""

    job: Annotated[str, Meta(min_length=1, max_length=64)]


async def _draw_stop(visit: Visit, request: StopActionRequest, planned: Planned | None) -> Drawn:
    facts = visit.parts.jobs.of(request.job).facts()
    if facts.state not in ("waiting", "running"):
        raise BadRequest(409, "JobEnded", f"the job is {facts.state}; nothing was done", "look at what became of it")
    lines = [
        PlanLine("does", f"stops: {facts.title}"),
        PlanLine("keeps", "what was done stays; the same again goes on from there"),
    ]
    return Drawn(title="Stop the job", lines=lines, facts={"job": facts.id})


async def _stop(visit: Visit, request: StopActionRequest, plan: Planned) -> ActionOutcome:
    visit.parts.jobs.of(request.job).stop()
    return ActionOutcome(
        text=f"asked to stop, as {visit.identity.name}", links=(Link("the job", f"/job?id={request.job}"),)
    )


ACTIONS = (
    Action(
        name="rerun", summary="Run a process that has ended again, and compare both runs.", request=RerunActionRequest,
        draw=_draw, act=_act,
    ),
    Action(name="stop-job", summary="Stop a rerun or a replay.", request=StopActionRequest, draw=_draw_stop, act=_stop),
)  # fmt: skip
