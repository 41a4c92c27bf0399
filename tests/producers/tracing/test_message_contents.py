"""Requests and responses of models as messages in spans: whatever a journal admits."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.producers import Node, Process, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.limits import Limits


def nested(depth: int) -> dict[str, Any]:
    """An object in which each object holds the next one."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"deeper": found}
    return found


MANY, DEEP = list(range(100_001)), nested(70)


@pytest.mark.parametrize("large", [MANY, DEEP], ids=["many", "deep"])
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
async def test_spans_refuse_no_content_that_the_journal_admits(large: Any, is_response: bool) -> None:
    """A model is not paid for an answer that its span cannot show. The journal's limits may be above the usual ones."""
    request, response = ("plan", large) if is_response else (large, "planned")

    @agent("planner")
    async def planner(process: Process, _: None) -> Any:
        return await process.decide("plan", lambda _: response, request)

    log = MemoryLog(partitions=1, limits=Limits(depth=100, items=1_000_000))
    async with Node.in_memory(log, tracing="content") as node:
        assert await node.run(planner, "case-1", None) == response
