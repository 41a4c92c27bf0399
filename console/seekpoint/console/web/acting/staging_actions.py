"""Replay the journal into a staging topic, as a job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Meta

from seekpoint.console.render.output import counted
from seekpoint.console.render.replay_reports import replay_summary, replay_warnings
from seekpoint.console.services.arguments.time_option import parse_time
from seekpoint.console.services.histories.staging_replays import offsets_copied, replay_clusters, replay_progress_file
from seekpoint.console.web.acting.actions import Action, ActionRequest, ProcessId
from seekpoint.console.web.acting.jobs import Job
from seekpoint.console.web.acting.plans import ActionOutcome, Drawn, Link, PlanLine
from seekpoint.console.web.failures import BadRequest

if TYPE_CHECKING:
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.consumers.staging import Plan, ReplayReport

__all__ = ["ACTIONS", "LOOK_S"]

LOOK_S = 20.0
"""How long a dry run reads. It says what it found until then."""


class ReplayActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to replay: the source, the target and the speed."""

    into: Annotated[str, Meta(min_length=3, max_length=400)]
    """``CLUSTER/TOPIC``, with a cluster of ``seekpoint.toml`` that is marked as staging."""
    processes: Annotated[tuple[ProcessId, ...], Meta(max_length=1_000)] = ()
    """Only these; none: all."""
    since: Annotated[str, Meta(max_length=60)] | None = None
    """So long ago (``2h``), or a date."""
    until: Annotated[str, Meta(max_length=60)] | None = None
    prefix: Annotated[str, Meta(max_length=100)] = ""
    """Put before each process id."""
    rate: Annotated[float, Meta(gt=0, le=10_000_000)] | None = None
    """Records a second."""
    speed: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """Times the original speed."""
    seeded: bool = False
    """Start each process from its state at that time."""

    def plan(self, visit: Visit) -> Plan:
        """Return the plan of the replay. Raises ``BadRequest`` and ``InvalidSetting``."""
        from seekpoint.consumers.staging import Pace, Plan, Selection

        selection = Selection(
            since_ms=_milliseconds(self.since), until_ms=_milliseconds(self.until),
            processes=frozenset(self.processes) if self.processes else None,
        )  # fmt: skip
        pace = Pace(speed=self.speed, rate=self.rate)
        return Plan(
            selection=selection, pace=pace, prefix=self.prefix, seeded=self.seeded, masks=visit.parts.options.masks
        )


async def _draw(visit: Visit, request: ReplayActionRequest, planned: Planned | None) -> Drawn:
    if planned is not None:  # the journal goes on all the time; the replay copies what is there when it begins
        return Drawn(title=planned.title, lines=planned.lines, facts=planned.facts)
    if request.into.endswith(".spk"):
        raise BadRequest(400, "BadBody", "the console replays into topics only", "into a file: seekpoint replay")
    plan, source = request.plan(visit), await visit.parts.in_thread(_source, visit)
    report = await visit.parts.in_thread(_looked, visit, plan, source, request.into)
    found = (
        replay_summary(report)
        if report.complete
        else f"at least {counted(report.replayed, 'record')} would be replayed"
    )
    lines = [PlanLine("does", f"copies {source} into {request.into}"), PlanLine("does", found)]
    if not report.complete:
        lines.append(PlanLine("keeps", f"the dry run ended after {LOOK_S:g} s; the replay reads everything"))
    masked = "values are masked with the rules of the console" if plan.masks else "values are not masked"
    lines.append(PlanLine("keeps" if plan.masks else "warns", masked))
    lines += [PlanLine("warns", text) for text in replay_warnings(report)]
    facts = {
        "from": source,
        "into": request.into,
        "plan": plan.digest(source, request.into),
        "records": report.replayed,
    }
    return Drawn(title=f"Replay into {request.into}", lines=lines, facts=facts)


def _looked(visit: Visit, plan: Plan, source: str, into: str) -> ReplayReport:
    """Return what a dry run found in at most ``LOOK_S``. Blocks."""
    from seekpoint.consumers.staging import Replay

    with Replay.connect(source, into, plan, clusters=replay_clusters(visit.parts.target)) as staged:
        timer = threading.Timer(LOOK_S, staged.stop)
        timer.start()
        try:
            return staged.dry_run()
        finally:
            timer.cancel()
            timer.join()


async def _act(visit: Visit, request: ReplayActionRequest, plan: Planned) -> ActionOutcome:
    replay_plan, source, actor = request.plan(visit), plan.facts["from"], visit.identity.name
    target = visit.parts.target
    job = Job("replay", plan.title, actor, request.reason)

    def work(job: Job) -> tuple[str, dict[str, Any]]:
        from seekpoint.consumers.staging import Replay

        file = replay_progress_file(replay_plan, source, request.into)
        with Replay.connect(
            source, request.into, replay_plan, clusters=replay_clusters(target), progress=file, actor=actor,
            reason=request.reason,
        ) as staged:  # fmt: skip
            job.on_stop = staged.stop
            if job.is_stopping:
                staged.stop()
            report = staged.run(lambda stats, ranges: job.progress(*offsets_copied(stats, ranges), "records"))
        job.table = [("what", "note"), *(("warning", text) for text in replay_warnings(report))]
        more = "" if report.complete else "; it was stopped, the same replay goes on from there"
        return replay_summary(report) + more, report.to_dict()

    visit.parts.jobs.start(job, work)
    return ActionOutcome(
        text=f"the replay into {request.into} runs, as {actor}",
        links=(Link("how far it is", f"/job?id={job.id}"), Link("all jobs", "/jobs")), facts={"job": job.id},
    )  # fmt: skip


def _source(visit: Visit) -> str:
    """Return the name of the journal's topic. Raises ``Refused`` for an embedded log. Blocks."""
    settings = visit.parts.target.require_kafka()
    return f"default/{settings.topic_name('journal')}"


def _milliseconds(text: str | None) -> int | None:
    from seekpoint.consumers.recovery.points import timestamp_ms

    try:
        return None if text is None else timestamp_ms(parse_time(text))
    except (typer.BadParameter, ValueError, OverflowError, OSError) as exc:
        raise BadRequest(400, "BadBody", str(exc)[:200], "so long ago (2h), or a date") from None


ACTIONS = (
    Action(
        name="replay",
        summary="Replay the journal into a staging topic.",
        request=ReplayActionRequest,
        draw=_draw,
        act=_act,
    ),
)
