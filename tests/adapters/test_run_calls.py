"""What the errors of a durable run's tool calls say."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint import Effect, Node
from seekpoint.adapters.run_calls import RunCalls, has_run
from seekpoint.errors import LimitExceeded, UnserializableValue

LARGE, NO_JSON = "x" * 2_000_000, float("nan")


@pytest.mark.parametrize("semantics", [Effect.AT_MOST_ONCE, Effect.IDEMPOTENT, None])
@pytest.mark.parametrize(
    ("arguments", "result", "ran"),
    [(1, LARGE, True), (1, NO_JSON, True), (LARGE, 1, False), (NO_JSON, 1, False)],
)
async def test_an_error_says_whether_the_tool_has_run(
    arguments: Any, result: Any, ran: bool, semantics: Effect | None
) -> None:
    """Of a result it has, of arguments it has not. A run that is repeated is told the same."""
    made = 0

    async def body() -> Any:
        nonlocal made
        made += 1
        return result

    async with Node.in_memory() as node:
        for _ in range(2):
            async with node.open("p") as process:
                with pytest.raises((LimitExceeded, UnserializableValue)) as failed:
                    await RunCalls(process).tool("pay", body, arguments, "c1", semantics)
                assert has_run(failed.value) is ran
    assert made == ran
