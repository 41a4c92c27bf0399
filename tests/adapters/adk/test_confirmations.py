"""What a person has to confirm before a tool runs is a gate."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_runs import CALLS, model, pay, run_of
from scripted_llms import call, said
from seekpoint import MemoryLog, Node


async def _asked(node: Node, count: int) -> list[str]:
    """The keys of the gates of payments, once so many are open."""
    while True:
        state = (await node.recover("p", missing_ok=True)).state
        keys = [key for key in state.unsettled_calls if "pay:" in key]
        if len(keys) == count:
            return keys
        await asyncio.sleep(0.01)


async def test_confirmations_are_gates() -> None:
    """Those of one turn are open at once, through a crash; the model is told of a rejection, with its reason."""

    def script(number: int) -> list[types.Part]:
        return said("done") if number else [call("pay", f"p{amount}", amount=amount) for amount in (5, 6)]

    llm, log = model(script), MemoryLog()
    run = run_of(LlmAgent(name="a", model=llm, tools=[FunctionTool(pay, require_confirmation=True)]))
    async with Node.in_memory(log) as node:
        first = asyncio.create_task(node.run(run, "p", "x"))
        await _asked(node, 2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert CALLS == {"model 0": 1}
    async with Node.in_memory(log) as node:
        five, six = await _asked(node, 2)
        running = asyncio.create_task(node.run(run, "p"))
        await node.approve("p", five, in_advance=True)
        await node.deny("p", six, reason="too much", in_advance=True)
        assert await running == ["done"]
    assert CALLS == {"model 0": 1, "pay 5": 1, "model 2": 1}
    told = [
        part.function_response.response for part in llm.asked[-1].contents[-1].parts or [] if part.function_response
    ]
    assert told == [{"result": "paid 5"}, {"error": "This tool call is rejected.", "reason": "too much"}]


async def test_a_tool_may_ask_by_itself() -> None:
    """It is called again with the answer and what the person added; a time-out rejects."""
    heard: list[Any] = []

    async def book(days: int, tool_context: ToolContext) -> dict[str, Any]:
        """Book days off."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="how many?", payload={"days": 0})
            return {"status": "asked"}
        heard.append(tool_context.tool_confirmation.payload)
        return {"confirmed": tool_context.tool_confirmation.confirmed}

    llm = model(lambda number: said("done") if number else [call("book", days=5)])
    root = LlmAgent(name="a", model=llm, tools=[book])
    async with Node.in_memory() as node:
        assert await node.run(run_of(root, approval_timeout=0.05), "p", "x") == ["done"]
    assert heard == [{"days": 0}]
    responses = [part.function_response for part in llm.asked[-1].contents[-1].parts or []]
    assert [one.response for one in responses if one is not None] == [{"confirmed": False}]
