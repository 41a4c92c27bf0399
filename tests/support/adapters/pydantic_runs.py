"""Agents of Pydantic AI that run twice in a test: as a process, and as its replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pydantic_ai import (
    Agent,
)
from pydantic_ai.models.function import FunctionModel

from scripted_pydantic_agents import called, said, scripted
from seekpoint import MemoryLog, Node, Process, agent
from seekpoint.adapters.pydantic_ai import SeekpointDurability
from seekpoint.testing import assert_replays, history_of

__all__ = ["LOOKS", "Deps", "built", "decisions", "look", "made", "model", "run_twice", "steps"]

made: Counter[str] = Counter()
"""How often each thing was done, in all lives of a test's process."""


def model(name: str, script: Any) -> FunctionModel:
    """A model by what it says after so many tool outputs."""
    return scripted(name, script, lambda number: made.update([f"{name}-{number}"]))


async def look(order: str) -> str:
    """Look an order up."""
    made[f"look-{order}"] += 1
    return f"{order} is paid"


LOOKS = {0: [called("look", "c1", order="o1")], 1: said("all is well")}


def built(
    script: Any = LOOKS, tools: Any = (look,), *, capabilities: Any = (), durability: Any = None, **more: Any
) -> Any:
    """A durable agent."""
    given = durability or SeekpointDurability()
    return Agent(model("main", script), name="main", tools=tools, capabilities=[*capabilities, given], **more)


@dataclass
class Deps:
    """What no journal can have."""

    call: Any


async def run_twice(code: Any, *, expected: Any = ...) -> list[Any]:
    """Run the code as a process, then replay it: nothing is done again, and the result is the same.

    Returns the bodies of the entries.
    """

    @agent("code")
    async def process_code(process: Process, given: Any) -> Any:
        return await code(process)

    log = MemoryLog()
    async with Node.in_memory(log) as node:
        result = await node.run(process_code, "case-1", None)
    once = dict(made)
    await assert_replays(process_code, history_of(log, "case-1"))
    assert dict(made) == once
    assert expected is ... or result == expected
    return [entry.body for entry in history_of(log, "case-1")]


def steps(bodies: list[Any]) -> list[str]:
    """The names of the steps, in order."""
    return [body.name for body in bodies if body.KIND == "step_ended" and body.name] or [
        body.key.rpartition("/")[2].rpartition(":")[0] for body in bodies if body.KIND == "step_ended"
    ]


def decisions(bodies: list[Any]) -> int:
    """How many model calls are recorded."""
    return sum(body.KIND == "decision_made" for body in bodies)
