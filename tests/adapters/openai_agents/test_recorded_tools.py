"""Tools in a durable run: their outputs are recorded, they are called once, and declared effects are effects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    Tool,
    ToolOutputImage,
    function_tool,
    handoff,
    tool_namespace,
)
from agents.testing import assistant_message, function_call

from openai_runs import bodies, made, model, refund, run_once, running, single
from seekpoint import Effect, Node
from seekpoint.errors import InvalidOption
from seekpoint.testing import Crash, assert_replays, crash_at


@dataclass
class Order:
    """What the SDK turns into a text."""

    number: int


async def test_outputs_are_the_same_in_a_replay() -> None:
    """Parts for the model, plain values, and what the SDK turns into a text."""

    @function_tool
    async def image() -> ToolOutputImage:
        return ToolOutputImage(image_url="https://example.org/a.png")

    @function_tool
    async def order() -> Order:
        return Order(7)

    @function_tool(failure_error_function=lambda _, error: str(error))
    async def fails() -> str:
        raise ValueError("no such order")

    @function_tool
    async def rows() -> dict[str, Any]:
        return {"rows": [1, 2.5, None]}

    tools: list[Tool] = [image, order, fails, rows]
    calls = [function_call(tool.name, {}, call_id=f"c-{tool.name}") for tool in tools]
    runs = running(single({0: calls, 4: assistant_message("done")}, tools))
    crash = crash_at(call="model:1", when="unsent")
    assert await crash.run(runs, "case-1", "hello") == "done"
    await assert_replays(runs, crash.history())
    request = _request(crash, "model:1")
    for text in ("https://example.org/a.png", "Order(number=7)", "no such order", "rows"):
        assert text in request


async def test_a_number_that_json_does_not_have_is_recorded_as_its_text() -> None:
    """As the SDK shows it to the model."""

    @function_tool
    async def ratio() -> float:
        made["ratio"] += 1
        return float("nan")

    @function_tool
    async def ratios() -> dict[str, list[float]]:
        made["ratios"] += 1
        return {"found": [1.5, float("inf")]}

    calls = [function_call("ratio", {}, call_id="c1"), function_call("ratios", {}, call_id="c2")]
    semantics = dict.fromkeys(("ratio", "ratios"), Effect.AT_MOST_ONCE)
    runs = running(single({0: calls, 2: assistant_message("done")}, [ratio, ratios]), effects=semantics)
    crash = crash_at(call="model:1", when="unsent")
    assert await crash.run(runs, "case-1", "hello") == "done"
    request = _request(crash, "model:1")
    assert "nan" in request
    assert "{'found': [1.5, inf]}" in request
    assert (made["ratio"], made["ratios"]) == (1, 1)


@pytest.mark.parametrize("semantics", [Effect.AT_MOST_ONCE, None])
async def test_a_tool_whose_result_is_lost_is_not_to_be_called_again(semantics: Effect | None) -> None:
    """It has run. The SDK's own text asks the model to try again. A text of one's own is left as it is."""

    @function_tool
    async def pay() -> str:
        made["pay"] += 1
        return "paid" * 1_000_000

    @function_tool(failure_error_function=lambda _, error: f"told: {type(error).__name__}")
    async def order() -> str:
        return "order" * 1_000_000

    calls = [function_call("pay", {}, call_id="c1"), function_call("order", {}, call_id="c2")]
    script = {0: calls, 2: assistant_message("done")}
    runs = running(single(script, [pay, order]), effects={} if semantics is None else {"pay": semantics})
    crash = crash_at(call="model:1", when="unsent")
    assert await crash.run(runs, "case-1", "hello") == "done"
    request = _request(crash, "model:1")
    assert "The tool has run" in request
    assert "told: LimitExceeded" in request
    assert "try again" not in request
    assert made["pay"] == 1
    await assert_replays(runs, crash.history())


async def test_a_time_out_of_a_tool_is_recorded() -> None:
    """The next run tells the model the same, though the tool would be quicker then."""

    @function_tool(timeout=0.01)
    async def slow() -> str:
        made["slow"] += 1
        await asyncio.sleep(1 if made["slow"] <= 3 else 0)
        return "in time"

    runs = running(single({0: function_call("slow", {}, call_id="c1"), 1: assistant_message("done")}, [slow]))
    crash = crash_at(call="model:1", when="unsent")
    assert await crash.run(runs, "case-1", "hello") == "done"
    request = _request(crash, "model:1")
    assert "timed out after 0.01 seconds" in request


def _paying(name: str, tools: list[Tool], first: int = 0) -> Agent[Any]:
    call = function_call("refund", {"order": "o1"}, call_id=f"{name}-1", namespace=_namespace_of(tools))
    return Agent(name=name, model=model(name, {first: call, first + 1: assistant_message("paid")}), tools=tools)


def _namespace_of(tools: list[Tool]) -> str | None:
    found = getattr(tools[0], "qualified_name", "").rpartition(".")[0]
    return found or None


def _in_a_namespace() -> Agent[Any]:
    return _paying("one", [*tool_namespace(name="shop", description="The shop", tools=[refund])])


def _behind_a_handoff() -> Agent[Any]:
    money = _paying("money", [refund], first=1)
    return Agent(
        name="front", model=model("front", {0: function_call("transfer_to_money", {}, call_id="h")}),
        handoffs=[handoff(money)],
    )  # fmt: skip


def _in_an_agent_that_is_a_tool() -> Agent[Any]:
    money = _paying("money", [refund])
    script = {0: function_call("ask", {"input": "pay"}, call_id="t"), 1: assistant_message("paid")}
    return Agent(name="front", model=model("front", script), tools=[money.as_tool("ask", "Ask")])


@pytest.mark.parametrize("effect", ["refund", "shop.refund"])
@pytest.mark.parametrize("build", [_in_a_namespace, _behind_a_handoff, _in_an_agent_that_is_a_tool])
async def test_a_declared_effect_is_one_wherever_its_tool_is(build: Callable[[], Agent[Any]], effect: str) -> None:
    """In a namespace, behind a handoff, or in an agent that is a tool; a name that nobody has is refused."""
    declared = {effect: Effect.AT_MOST_ONCE}
    if effect == "shop.refund" and build is not _in_a_namespace:
        with pytest.raises(InvalidOption, match=r"effects names tools: refund"):
            await run_once(running(build, effects=declared))
        return
    async with Node.in_memory() as node:
        assert await node.run(running(build, effects=declared), "case-1", "pay") == "paid"
        assert len(await bodies(node, "effect_settled")) == 1


def _request(crash: Crash, key: str) -> str:
    bodies: list[Any] = [entry.body for entry in crash.history()]
    return next(str(body.request) for body in bodies if body.KIND == "decision_started" and body.key == key)
