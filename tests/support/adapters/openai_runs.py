"""Models, tools and runs of the OpenAI Agents SDK, whose calls are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from agents import (
    Agent,
    Tool,
    function_tool,
)

from scripted_agents import RepeatableModel, Script
from seekpoint import Node, Process, agent
from seekpoint.adapters.openai_agents import DurableRunner, idempotency_key

__all__ = ["bodies", "look", "made", "model", "refund", "run_once", "running", "single"]

made: Counter[str] = Counter()
"""How often each model call and each tool call was made, in all lives of a test's process."""


def model(name: str, script: dict[int, Any]) -> RepeatableModel:
    """A model by what it says after so many tool outputs."""
    says: Script = lambda number: [script[number]] if not isinstance(script[number], list) else script[number]  # noqa: E731
    return RepeatableModel(says, lambda number: made.update([f"{name}-{number}"]))


@function_tool
async def look(order: str) -> str:
    """Look an order up."""
    made[f"look-{order}"] += 1
    return f"{order} is paid"


@function_tool(failure_error_function=lambda _, error: str(error))
def refund(order: str) -> str:
    """Pay an order back."""
    made[idempotency_key()] += 1
    return f"{order} is refunded"


def running(build: Callable[[], Agent[Any]], **how: Any) -> Any:
    """An agent of Seekpoint that runs the agent of the SDK."""

    @agent("runs")
    async def runs(process: Process, wish: str) -> Any:
        return (await DurableRunner(process, **how).run(build(), wish)).final_output

    return runs


def single(script: dict[int, Any], tools: list[Tool], **more: Any) -> Callable[[], Agent[Any]]:
    """One agent with a script."""
    return lambda: Agent(name="one", model=model("main", script), tools=tools, **more)


async def bodies(node: Node, kind: str) -> list[Any]:
    """The entries of a kind that the process has."""
    return [one.entry.body async for one in node.entries("case-1", kinds=[kind])]


async def run_once(runs: Any) -> None:
    """Run it in memory."""
    async with Node.in_memory() as node:
        await node.run(runs, "case-1", "hello")
