"""Ways to run an agent, and events: what Pydantic AI's own suites ask of its engines (Temporal, DBOS, Prefect)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    AgentStreamEvent,
    ModelMessage,
    RunContext,
)
from pydantic_ai.capabilities import (
    ProcessEventStream,
)
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import FunctionToolCallEvent, FunctionToolResultEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.models.function import AgentInfo, FunctionModel

from pydantic_runs import built, decisions, made, model, run_twice, steps
from scripted_pydantic_agents import said
from seekpoint import Process
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


# --- ways to run an agent
async def test_a_streamed_run_is_recorded_and_streams_again() -> None:
    """The text of a replay comes from the record."""
    one = built({0: said("one two three")})

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.run_stream("hello") as result:
                return [text async for text in result.stream_text(debounce_by=None)]

    bodies = await run_twice(code)
    assert made == {"main-0": 1}
    assert decisions(bodies) == 1


async def test_events_of_a_run_are_the_same_again() -> None:
    """``run_stream_events`` yields each part, each tool call and the result."""
    one = built()

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.run_stream_events("hello") as events:
                return [type(event).__name__ async for event in events]

    bodies = await run_twice(code)
    assert made == {"main-0": 1, "look-o1": 1, "main-1": 1}
    assert decisions(bodies) == 2


async def test_a_run_that_is_iterated_is_recorded() -> None:
    """Node by node."""
    one = built()

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            async with one.iter("hello") as run:
                nodes = [type(node).__name__ async for node in run]
            assert run.result is not None
            return [*nodes, run.result.output]

    bodies = await run_twice(code)
    assert decisions(bodies) == 2
    assert made["look-o1"] == 1


async def test_runs_at_the_same_time_are_kept_apart() -> None:
    """Each has its own id, the same one in a replay."""
    one = built({0: said("hi")})

    async def code(process: Process) -> list[Any]:
        with durable(process, one):
            results = await asyncio.gather(*(one.run(f"hello {number}") for number in range(3)))
        return [[result.run_id, result.conversation.conversation_id] for result in results]

    bodies = await run_twice(code)
    assert decisions(bodies) == 3


async def test_run_ids_begin_with_the_process() -> None:
    """One that the code gives is kept."""
    one = built({0: said("hi")})

    async def code(process: Process) -> list[str]:
        with durable(process, one):
            return [(await one.run("hello")).run_id, (await one.run("hello", run_id="mine")).run_id]

    await run_twice(code, expected=["case-1/run:1", "mine"])


async def test_two_agents_run_in_one_process() -> None:
    """One after the other, with the history of the first."""
    one, other = built({0: said("hi")}), Agent(
        model("other", {0: said("ho")}), name="other", capabilities=[SeekpointDurability()]
    )  # fmt: skip

    async def code(process: Process) -> Any:
        with durable(process, one, other):
            first = await one.run("hello")
            second = await other.run("and you?", message_history=first.all_messages())
        return f"{first.output} {second.output} {len(second.all_messages())}"

    await run_twice(code, expected="hi ho 4")


# --- events
@pytest.mark.parametrize("how", ["capability", "handler"])
async def test_events_are_handled(how: str) -> None:
    """A handler of the durability sees the chunks of a model inside its decision, and each tool event in a step."""
    seen: Counter[str] = Counter()

    async def handle(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            seen[type(event).__name__] += 1

    handled = ProcessEventStream(handle)
    one = built(
        durability=SeekpointDurability(event_stream_handler=handle if how == "handler" else None),
        capabilities=[handled] if how == "capability" else [],
    )

    async def code(process: Process) -> Any:
        with durable(process, one):
            return (await one.run("hello")).output

    bodies = await run_twice(code)
    assert seen[PartStartEvent.__name__]
    assert seen[FunctionToolCallEvent.__name__] == seen[FunctionToolResultEvent.__name__]
    if how == "handler":
        assert seen[PartDeltaEvent.__name__] > 1
        assert seen[FunctionToolCallEvent.__name__] == 1
        assert steps(bodies).count("event") >= 2


async def test_a_stream_that_fails_midway_is_not_begun_again() -> None:
    """Its chunks were handled: no further attempt and no other model, in the replay neither."""
    chunks: list[str] = []

    async def handle(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        chunks.extend([type(event).__name__ async for event in events])

    async def breaks(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        made["stream"] += 1
        yield "half "
        raise ModelHTTPError(503, "main", body={"error": "busy"})

    one = Agent(
        FunctionModel(stream_function=breaks), name="main",
        capabilities=[SeekpointDurability(event_stream_handler=handle)],
    )  # fmt: skip

    async def code(process: Process) -> list[Any]:
        with durable(process, one):
            try:
                await one.run("hello")
            except ModelHTTPError as exc:
                return [exc.status_code, exc.body]
        return []

    await run_twice(code, expected=[503, {"error": "busy"}])
    assert made == {"stream": 1}
