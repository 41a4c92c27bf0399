"""Agents of the Agent Development Kit that shop or ask a helper, run by an agent of Seekpoint."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from scripted_llms import ScriptedLlm, call, said
from seekpoint import Node, Process, agent
from seekpoint.adapters.adk import DurableRunner, SeekpointSessionService, idempotency_key
from seekpoint.testing import crash_at

__all__ = [
    "CALLS",
    "asking_a_helper",
    "buyer",
    "counted_model",
    "crashed",
    "look",
    "model",
    "pay",
    "run_of",
    "shopping",
    "stored",
]

CALLS: Counter[str] = Counter()
"""The calls of models and tools. ``tests/adapters/adk/conftest.py`` forgets them before each test."""


def model(script: Callable[[int], list[types.Part]]) -> ScriptedLlm:
    """A model that counts its calls."""
    return ScriptedLlm(model="scripted", script=script, on_call=lambda number: CALLS.update([f"model {number}"]))


async def look(what: str, tool_context: ToolContext) -> dict[str, Any]:
    """Look something up."""
    CALLS.update([f"look {what}"])
    await asyncio.sleep(0)
    tool_context.state["seen"] = [*tool_context.state.get("seen", []), what]
    return {"found": what, "key": len(idempotency_key()) > 8}


async def pay(amount: int) -> str:
    """Pay."""
    CALLS.update([f"pay {amount}"])
    return f"paid {amount}"


def shopping(number: int) -> list[types.Part]:
    """Look two things up at once, pay, and say so."""
    if number == 0:
        return [call("look", what="shoes"), call("look", what="socks")]
    return [call("pay", "p1", amount=5)] if number == 2 else said("done")


def run_of(root: BaseAgent | Callable[[], BaseAgent], **how: Any) -> Any:
    """An agent of Seekpoint that runs an agent of the toolkit, and returns what its events say."""

    @agent("run", version="1")
    async def run(process: Process, question: str) -> list[str]:
        given = root if isinstance(root, BaseAgent) else root()
        runner = DurableRunner(
            process, **{"app_name": "shop", "agent": given, "auto_create_session": True, **how}
        )  # fmt: skip
        said: list[str] = []
        async for event in runner.run_async(user_id="ada", session_id="1", new_message=question):
            said += [part.text for part in (event.content.parts or []) if part.text] if event.content else []
        return said

    return run


def buyer(**how: Any) -> LlmAgent:
    """An agent that shops."""
    return LlmAgent(name="buyer", model=model(shopping), tools=[look, pay], **how)


async def stored(node: Node) -> list[str]:
    """The authors of the events of the session."""
    session = await SeekpointSessionService(node).get_session(app_name="shop", user_id="ada", session_id="1")
    assert session is not None
    return [event.author for event in session.events]


async def crashed(run: Any, name: str, *, ended: bool = True, nth: int = 1) -> Any:
    """Run it on a machine that dies at the ``nth`` call of that name, then on another one; return the result."""
    async with Node.in_memory() as node:
        await node.run(run, "p", "go")
        calls = (await node.recover("p")).state.calls
    key = [key for key in calls if key.rpartition("/")[2].partition(":")[0] == name][nth - 1]
    CALLS.clear()
    return await crash_at(call=key, ended=ended, when="acknowledged").run(run, "p", "go")


class Counting(BasePlugin):
    """A plugin that counts the agents that it sees."""

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Count."""
        CALLS.update([f"plugin {agent.name}"])


def counted_model(name: str, first: list[types.Part]) -> ScriptedLlm:
    """A model that answers ``first``, then that it is done."""
    return ScriptedLlm(
        model="scripted", script=lambda number: said(f"{name} done") if number else first,
        on_call=lambda number: CALLS.update([f"{name} {number}"]),
    )  # fmt: skip


def look_up(what: str) -> str:
    """Look something up."""
    CALLS.update(["look"])
    return what


def asking_a_helper(*, isolated: bool = True, **how: Any) -> Any:
    """An agent of Seekpoint that runs an agent of the toolkit, whose tool is an agent."""
    helper = LlmAgent(name="helper", model=counted_model("helper", [call("look_up", what="x")]), tools=[look_up])
    tool = AgentTool(helper, include_plugins=not isolated)
    root = LlmAgent(name="root", model=counted_model("root", [call("helper", request="help")]), tools=[tool])

    @agent("run", version="1")
    async def run(process: Process, question: str) -> str:
        runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True, **how)
        runner._runner.plugin_manager.register_plugin(Counting(name="counting"))
        events = [one async for one in runner.run_async(user_id="ada", session_id="1", new_message=question)]
        found = events[-1].content
        return (found.parts or [])[0].text or "" if found else ""

    return run
