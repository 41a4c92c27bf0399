"""An error of a tool is the same for the code around an agent in the first run, in a replay, and in a replay check."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from observed_errors import ERRORS, each_run, observed
from seekpoint.producers import Process

pytest.importorskip("agents")
pytest.importorskip("google.adk")
pytest.importorskip("pydantic_ai")

from agents import Agent as OpenAiAgent
from agents import function_tool
from agents.testing import assistant_message, function_call
from google.adk.agents import LlmAgent
from google.adk.plugins.base_plugin import BasePlugin
from pydantic_ai import Agent as PydanticAgent

import openai_runs
import scripted_llms
import scripted_pydantic_agents
from adk_runs import model as adk_model
from pydantic_runs import model as pydantic_model
from seekpoint.adapters import adk, openai_agents, pydantic_ai

Body = Callable[[], Any]


async def of_openai(process: Process, body: Body, seen: list[Any]) -> None:
    """A tool whose error leaves the run."""

    async def fail() -> str:
        return str(body())

    says = openai_runs.model("main", {0: function_call("fail", {}, call_id="c1"), 1: assistant_message("done")})
    tool = function_tool(fail, failure_error_function=None)
    one: OpenAiAgent[None] = OpenAiAgent(name="one", model=says, tools=[tool])
    await openai_agents.DurableRunner(process).run(one, "go")


async def of_openai_told(process: Process, body: Body, seen: list[Any]) -> None:
    """A tool whose own function makes a text of its error, which the model gets."""

    async def fail() -> str:
        return str(body())

    def told(_: Any, error: Exception) -> str:
        return str(error)

    says = openai_runs.model("main", {0: function_call("fail", {}, call_id="c1"), 1: assistant_message("done")})
    tool = function_tool(fail, failure_error_function=told)
    one: OpenAiAgent[None] = OpenAiAgent(name="one", model=says, tools=[tool])
    result = await openai_agents.DurableRunner(process).run(one, "go")
    seen.append(str([item.to_input_item() for item in result.new_items]))


async def of_adk(process: Process, body: Body, seen: list[Any]) -> None:
    """A tool whose error a plugin sees before it leaves the run."""

    class Watching(BasePlugin):
        async def on_tool_error_callback(self, *, error: Exception, **_: Any) -> None:
            seen.append(observed(error))

    async def fail() -> str:
        return str(body())

    llm = adk_model(lambda number: scripted_llms.said("done") if number else [scripted_llms.call("fail")])
    one = LlmAgent(name="one", model=llm, tools=[fail])
    runner = adk.DurableRunner(process, app_name="shop", agent=one, auto_create_session=True)
    runner._runner.plugin_manager.plugins.append(Watching("watching"))
    number = len(seen)
    async for _ in runner.run_async(user_id="ada", session_id=f"s{number}", new_message="go"):
        pass


async def of_pydantic_ai(process: Process, body: Body, seen: list[Any]) -> None:
    """A tool whose error leaves the run."""

    async def fail() -> str:
        return str(body())

    said, called = scripted_pydantic_agents.said, scripted_pydantic_agents.called
    says = pydantic_model("main", {0: [called("fail", "c1")], 1: said("done")})
    one: Any = PydanticAgent(says, name="main", tools=[fail], capabilities=[pydantic_ai.SeekpointDurability()])
    with pydantic_ai.durable(process):
        await one.run("go")


@pytest.mark.parametrize("path", [of_openai, of_openai_told, of_adk, of_pydantic_ai])
async def test_an_error_of_a_tool_is_the_same_in_each_run(path: Any) -> None:
    """For the code that catches it, for the callbacks of the framework, and in what the model is told."""

    async def main(process: Process, seen: list[Any]) -> None:
        for name in ERRORS:

            def body(name: str = name) -> Any:
                raise ERRORS[name]()

            try:
                await path(process, body, seen)
            except Exception as exc:
                found = repr((name, observed(exc)))  # the SDK's errors show the objects of their run
                seen.append(re.sub(r" at 0x[0-9a-f]+", "", found))

    first, again, checked = await each_run(main)
    assert len(first) >= len(ERRORS)
    for one, other, third in zip(first, again, checked, strict=True):
        assert one == other == third
