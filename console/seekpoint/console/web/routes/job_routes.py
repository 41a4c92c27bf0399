"""Jobs: reruns and replays that go on in the console, with their rate, what is left, and what came out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from seekpoint.console.web.acting.jobs import JobFacts
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from starlette.responses import Response

    from seekpoint.console.services.arguments.target import CommandTarget

__all__ = ["OPERATIONS", "PAGES"]


class JobQuery(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]


class JobsAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The jobs of this console, the newest first."""

    jobs: list[JobFacts]


async def list_jobs(visit: Visit, query: NoQuery) -> JobsAnswer:
    """Return all jobs."""
    return JobsAnswer(jobs=visit.parts.jobs.listed())


async def get_job(visit: Visit, query: JobQuery) -> JobFacts:
    """Return one job."""
    return visit.parts.jobs.of(query.id).facts()


async def show_jobs(visit: Visit, query: NoQuery) -> Response:
    """Show all jobs."""
    parts = visit.parts
    staging = None if parts.target.settings.sqlite_path is not None else await parts.in_thread(_staging, parts.target)
    return parts.templates.page(
        visit, "jobs/page.html", jobs=parts.jobs.listed(), staging=staging, is_masked=parts.options.masks is not None
    )


def _staging(target: CommandTarget) -> list[str]:
    """Return the names of the clusters that a replay may write to."""
    from seekpoint.console.services.histories.staging_replays import replay_clusters

    return [name for name, cluster in replay_clusters(target).items() if cluster.is_staging]


async def show_job(visit: Visit, query: JobQuery) -> Response:
    """Show one job. A script asks how far it is."""
    job = visit.parts.jobs.of(query.id)
    head, *rows = job.table or [()]
    return visit.parts.templates.page(visit, "jobs/job.html", job=job.facts(), head=head, rows=rows)


PAGES = (WebPage(path="/jobs", show=show_jobs, nav="Jobs"), WebPage(path="/job", show=show_job, query=JobQuery))
OPERATIONS = (
    Operation(path="/api/jobs", summary="List reruns and replays of this console.", call=list_jobs, answer=JobsAnswer),
    Operation(
        path="/api/job", summary="Say how far a job is.", call=get_job, query=JobQuery, answer=JobFacts, raises=(404,)
    ),
)  # fmt: skip
