"""The pipeline of the journal, live: partitions, projectors, checkpoints, workers, recovery services, dispatchers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response, StreamingResponse

from seekpoint.console.services.facts.pipeline_facts import PipelineFacts
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit, WebPage
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.web.data.pipeline_poller import SeenPipeline
    from seekpoint.console.web.parts import ConsoleParts
    from seekpoint.console.web.rendering import Templates

__all__ = ["OPERATIONS", "PAGES", "pipeline_stream"]


class PipelineAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The pipeline, as it was read at most two seconds ago."""

    pipeline: PipelineFacts
    problem: str | None
    """Why it cannot be read now, so that this is what was read before; None: it can."""


async def show_pipeline(visit: Visit, query: NoQuery) -> Response:
    """Show the pipeline."""
    seen = await visit.parts.pipeline.current()
    return visit.parts.templates.page(visit, "pipeline/page.html", parts=_parts(visit.parts.templates, seen))


async def stream_pipeline(visit: Visit, query: NoQuery) -> Response:
    """Send the pipeline again each time it changes."""
    await visit.parts.pipeline.current()
    return StreamingResponse(pipeline_stream(visit.parts), media_type="text/event-stream")


async def get_pipeline(visit: Visit, query: NoQuery) -> PipelineAnswer:
    """Return the pipeline."""
    seen = await visit.parts.pipeline.current()
    if seen.pipeline is None:
        raise BadRequest(503, "NotRead", seen.problem or "the journal was not read in time", "try again")
    return PipelineAnswer(pipeline=seen.pipeline, problem=seen.problem)


def _parts(templates: Templates, seen: SeenPipeline) -> dict[str, str]:
    """Return the parts of the page that change, as HTML, by the ids of their places."""
    names = ("summary", "partitions", "services", "workers", "nodes")
    return {f"pipeline-{name}": templates.text(f"pipeline/{name}.html", seen=seen, one=seen.pipeline) for name in names}


def pipeline_stream(parts: ConsoleParts) -> AsyncGenerator[bytes, None]:
    """Return a stream of the pipeline. All streams share one computation."""

    def make() -> bytes:
        return msgspec.json.encode(_parts(parts.templates, parts.pipeline.seen))

    return parts.pipeline_streams.events("pipeline", "pipeline", make)


PAGES = (
    WebPage(path="/pipeline", show=show_pipeline, nav="Pipeline"),
    WebPage(path="/events/pipeline", show=stream_pipeline),
)
OPERATIONS = (
    Operation(
        path="/api/pipeline", summary="Say how partitions, checkpoints and services stand.", call=get_pipeline,
        answer=PipelineAnswer,
    ),
)  # fmt: skip
