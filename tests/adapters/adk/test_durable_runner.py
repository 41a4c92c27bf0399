"""Durable runs of the Agent Development Kit: calls are made once, whatever crashes in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents import Context, LlmAgent
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_runs import CALLS, buyer, crashed, look, model, run_of, shopping, stored
from scripted_llms import call, said
from seekpoint import Effect, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner, SeekpointSessionService
from seekpoint.errors import EffectUnknown, InvalidOption, Refused, ReplayDivergence

ONCE = {"model 0": 1, "look shoes": 1, "look socks": 1, "model 2": 1, "pay 5": 1, "model 3": 1}


# --- calls, once
async def test_a_run_is_decisions_steps_and_effects() -> None:
    """With usage; a second run answers from the record."""
    run = run_of(buyer(), effects={"pay": Effect.AT_MOST_ONCE})
    async with Node.in_memory() as node:
        assert await node.run(run, "p", "shoes") == ["done"]
        assert await node.run(run, "p") == ["done"]
        calls = (await node.recover("p")).state.calls
        authors = await stored(node)
    assert CALLS == ONCE
    kinds = {key.rpartition("/")[2]: type(one).__name__ for key, one in calls.items()}
    assert {name.split(":")[0] for name in kinds} >= {"model", "look", "pay", "session", "session event"}
    assert authors == ["user", "buyer", "buyer", "buyer", "buyer", "buyer"]


POINTS = [("model", 1), ("look", 1), ("look", 2), ("pay", 1), ("model", 2), ("model", 3), ("session event", 3)]


@pytest.mark.parametrize(("name", "nth"), POINTS)
@pytest.mark.parametrize("ended", [False, True])
async def test_no_recorded_call_is_made_again(name: str, nth: int, ended: bool) -> None:
    """A machine dies at any of them; only what was in flight is made again, and each event is stored once."""
    run = run_of(buyer(), effects={"pay": Effect.IDEMPOTENT})
    assert await crashed(run, name, ended=ended, nth=nth) == ["done"]
    repeated = {name: count for name, count in CALLS.items() if count > 1}
    assert len(repeated) <= (0 if ended and name != "look" else 2), repeated
    assert all(name.startswith("look") for name in repeated) or len(repeated) == 1
    assert set(CALLS) == set(ONCE)


async def test_state_that_a_tool_changes_is_changed_in_a_replay() -> None:
    """Also a list that it changed in place, transfers, and other actions."""

    def collect(tool_context: ToolContext) -> str:
        CALLS.update(["collect"])
        tool_context.state["list"].append(CALLS["collect"])
        tool_context.state["temp:t"] = "for the next tool"
        tool_context.actions.escalate = True
        return "ok"

    def check(tool_context: ToolContext) -> str:
        return f"{tool_context.state['list']} {tool_context.state['temp:t']}"

    script = {0: [call("collect")], 1: [call("check")]}
    root = LlmAgent(name="a", model=model(lambda number: script.get(number, said("done"))), tools=[collect, check])
    seen: list[list[tuple[str, float]]] = []

    @agent("run", version="1")
    async def run(process: Process, question: str) -> list[Any]:
        service = SeekpointSessionService(process.node)  # type: ignore[arg-type]
        runner = DurableRunner(process, app_name="shop", agent=root, session_service=service, auto_create_session=True)
        events: list[Event] = []
        seen.append(ids := [])
        how: dict[str, Any] = {"user_id": "ada", "session_id": "1", "new_message": question}
        async for one in runner.run_async(**how, state_delta={"list": [7]}):
            events.append(one)
            ids.append((one.id, one.timestamp))
        return [
            [one.actions.escalate, one.actions.state_delta, [each.response for each in one.get_function_responses()]]
            for one in events
        ]

    async with Node.in_memory() as node:
        first = await node.run(run, "p", "go")
    assert first[1] == [True, {"list": [7, 1]}, [{"result": "ok"}]]
    assert first[3][2] == [{"result": "[7, 1] for the next tool"}]
    CALLS.clear()
    assert await crashed(run, "model", nth=3) == first
    assert len(seen[-2]) >= 4
    assert seen[-1][: len(seen[-2])] == seen[-2]


# --- errors
async def test_an_unknown_effect_ends_the_run_until_a_person_says_what_happened() -> None:
    """Nothing of the turn is stored before; then the run goes on."""
    outcomes = iter([ConnectionError("gone")])

    async def refund(order: str) -> str:
        """Pay back."""
        CALLS.update(["refund"])
        raise next(outcomes)

    def script(number: int) -> list[types.Part]:
        return said("done") if number else [call("look", what="order"), call("refund", "r1", order="7")]

    run = run_of(LlmAgent(name="a", model=model(script), tools=[look, refund]), effects={"refund": Effect.AT_MOST_ONCE})
    async with Node.in_memory() as node:
        with pytest.raises(EffectUnknown) as raised:
            await node.run(run, "p", "back")
        before = await stored(node)
        await node.verdict("p", str(raised.value.key), "succeeded", output="paid back")
        assert await node.run(run, "p") == ["done"]
        assert await stored(node) == [*before, "a", "a"]
    assert CALLS == {"model 0": 1, "look order": 1, "refund": 1, "model 2": 1}


async def test_a_model_is_told_of_an_effect_that_a_person_calls_failed() -> None:
    """The run goes on."""

    async def refund() -> str:
        """Pay back."""
        raise ConnectionError("gone")

    llm = model(lambda number: said("sorry") if number else [call("refund")])
    run = run_of(LlmAgent(name="a", model=llm, tools=[refund]), effects={"refund": Effect.AT_MOST_ONCE})
    async with Node.in_memory() as node:
        with pytest.raises(EffectUnknown) as raised:
            await node.run(run, "p", "back")
        await node.verdict("p", str(raised.value.key), "failed", reason="the bank knows nothing of it")
        assert await node.run(run, "p") == ["sorry"]
    assert "the bank knows nothing of it" in str(llm.asked[-1].contents[-1])


@pytest.mark.parametrize("is_last", [False, True])
async def test_a_plugin_cannot_hide_an_error_that_ends_the_run(is_last: bool) -> None:
    """The model is not asked again, also where the agent would end with the tool."""

    class Hides(BasePlugin):
        async def on_tool_error_callback(self, *, tool_context: ToolContext, **given: Any) -> dict[str, Any]:
            tool_context.actions.skip_summarization = is_last
            return {"error": "hidden"}

    async def refund() -> str:
        """Pay back."""
        raise ConnectionError("gone")

    root = LlmAgent(name="a", model=model(lambda number: said("done") if number else [call("refund")]), tools=[refund])
    app = App(name="shop", root_agent=root, plugins=[Hides(name="hides")])
    run = run_of(root, app=app, agent=None, app_name=None, effects={"refund": Effect.AT_MOST_ONCE})
    async with Node.in_memory() as node:
        with pytest.raises(EffectUnknown):
            await node.run(run, "p", "back")
    assert CALLS == {"model 0": 1}


async def test_the_failure_of_a_tool_is_recorded() -> None:
    """And callbacks of agents and plugins are called, in each run."""
    called: Counter[str] = Counter()

    def fail() -> str:
        """Fail."""
        CALLS.update(["fail"])
        raise ValueError("no such thing")

    def told(tool: BaseTool, args: dict[str, Any], tool_context: Context, error: Exception) -> dict[str, Any]:
        called.update(["error"])
        return {"error": str(error)}

    def after_model(callback_context: Context, llm_response: LlmResponse) -> None:
        called.update(["model"])

    def before_model(callback_context: Context, llm_request: LlmRequest) -> None:
        called.update(["before"])

    root = LlmAgent(
        name="a", model=model(lambda number: said("done") if number else [call("fail")]), tools=[fail],
        on_tool_error_callback=told, after_model_callback=after_model,
        before_model_callback=before_model,
    )  # fmt: skip
    assert await crashed(run_of(root), "model", nth=2) == ["done"]
    assert CALLS == {"model 0": 1, "fail": 1, "model 1": 1}
    assert called == {"error": 3, "model": 6, "before": 6}


async def test_a_changed_instruction_is_a_divergence() -> None:
    """Before the model is asked."""
    instructions = iter(["be kind", "be kind", "be quick"])
    run = run_of(lambda: buyer(instruction=next(instructions)))
    with pytest.raises(ReplayDivergence, match="model"):
        await crashed(run, "look", nth=1)


async def test_a_streamed_response_comes_whole() -> None:
    """Parts of it are not recorded."""

    @agent("run", version="1")
    async def run(process: Process, question: str) -> list[Any]:
        runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True)
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        events = runner.run_async(user_id="a", session_id="1", new_message=types.UserContent("x"), run_config=config)
        return [[one.partial, one.content.parts[0].text] async for one in events if one.content and one.content.parts]

    root = LlmAgent(name="a", model=model(lambda number: said("whole")))
    async with Node.in_memory() as node:
        assert await node.run(run, "p", "x") == [[None, "whole"]]


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
@pytest.mark.parametrize("why", ["effects", "compaction", "executor", "generator"])
async def test_what_cannot_be_recorded_is_refused(why: str) -> None:
    """The model is not asked."""

    async def stream() -> AsyncIterator[str]:
        """Yield."""
        yield "x"

    how: dict[str, Any] = {}
    root = buyer()
    if why == "effects":
        how["effects"] = {"pai": Effect.AT_MOST_ONCE}
    elif why == "compaction":
        config = EventsCompactionConfig(compaction_interval=3, overlap_size=1)
        how |= {
            "app": App(name="shop", root_agent=root, events_compaction_config=config),
            "agent": None,
            "app_name": None,
        }
    elif why == "executor":
        root = buyer(code_executor=UnsafeLocalCodeExecutor())
    else:
        root = LlmAgent(name="a", model=model(shopping), tools=[FunctionTool(stream)])
    async with Node.in_memory() as node:
        with pytest.raises(InvalidOption if why == "effects" else Refused):
            await node.run(run_of(root, **how), "p", "x")
    assert CALLS == {}
