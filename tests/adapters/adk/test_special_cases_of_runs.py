"""Durable runs of the Agent Development Kit: isolated agents as tools, a session made before a crash, credentials."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from scripted_llms import ScriptedLlm, call, said
from seekpoint import Effect, MemoryLog, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner, SeekpointSessionService
from seekpoint.adapters.adk.durable_sessions import DurableSessions
from seekpoint.adapters.adk.run_records import request_json
from seekpoint.adapters.run_calls import RESULT_LOST, RunCalls
from seekpoint.errors import Refused, UnserializableValue
from seekpoint.testing import crash_at, history_of

pytestmark = pytest.mark.filterwarnings("ignore:.*plugins:DeprecationWarning")
CALLS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _forgets() -> None:
    CALLS.clear()


class Counting(BasePlugin):
    """A plugin that counts the agents that it sees."""

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Count."""
        CALLS.update([f"plugin {agent.name}"])


def _model(name: str, first: list[types.Part]) -> ScriptedLlm:
    return ScriptedLlm(
        model="scripted", script=lambda number: said(f"{name} done") if number else first,
        on_call=lambda number: CALLS.update([f"{name} {number}"]),
    )  # fmt: skip


def _look(what: str) -> str:
    """Look something up."""
    CALLS.update(["look"])
    return what


def _running(*, isolated: bool = True, **how: Any) -> Any:
    helper = LlmAgent(name="helper", model=_model("helper", [call("_look", what="x")]), tools=[_look])
    tool = AgentTool(helper, include_plugins=not isolated)
    root = LlmAgent(name="root", model=_model("root", [call("helper", request="help")]), tools=[tool])

    @agent("run", version="1")
    async def run(process: Process, question: str) -> str:
        runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True, **how)
        runner._runner.plugin_manager.register_plugin(Counting(name="counting"))
        events = [one async for one in runner.run_async(user_id="ada", session_id="1", new_message=question)]
        found = events[-1].content
        return (found.parts or [])[0].text or "" if found else ""

    return run


class Unprintable:
    """A value of which there is no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


# --- agents as tools
@pytest.mark.parametrize("isolated", [True, False])
async def test_the_calls_of_an_agent_that_is_a_tool_are_recorded(isolated: bool) -> None:
    """Also of one that the plugins of the run do not see: no paid call is made again."""
    run = _running(isolated=isolated)
    async with Node.in_memory() as node:
        assert await node.run(run, "p", "go") == "root done"
        keys = list((await node.recover("p")).state.calls)
    assert ("plugin helper" in CALLS) is not isolated
    last = [key for key in keys if "model" in key][-1]
    CALLS.clear()
    assert await crash_at(call=last, ended=True, when="acknowledged").run(run, "p", "go") == "root done"
    made = {name: count for name, count in CALLS.items() if not name.startswith("plugin")}
    assert made == {"root 0": 1, "helper 0": 1, "look": 1, "helper 1": 1, "root 1": 1}


@pytest.mark.parametrize("when", ["acknowledged", "unsent"])
async def test_a_crash_in_a_model_call_of_an_agent_that_is_a_tool_ends_the_run_at_once(when: str) -> None:
    """The toolkit loses the cancellation of such a run, and waits for a reader of its events who has gone."""
    crash = crash_at(call="~2/model:1", when=when)
    running = asyncio.ensure_future(crash.run(_running(), "p", "go"))
    done, _ = await asyncio.wait([running], timeout=30)
    assert done
    assert running.result() == "root done"
    assert CALLS["root 0"] == 1


async def test_an_agent_that_is_a_tool_is_no_effect() -> None:
    """It would be none: the run is refused before anything is called."""
    async with Node.in_memory() as node:
        with pytest.raises(Refused, match=r"a tool that runs agents is no effect.*name=helper"):
            await node.run(_running(effects={"helper": Effect.AT_MOST_ONCE}), "p", "go")
    assert "root 0" not in CALLS


# --- results
def _circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize("returned", [b"\xff\x00", {"all": [b"\xff"]}, _circle(), Unprintable()])
async def test_a_tool_whose_result_is_no_json_has_run(returned: Any) -> None:
    """At most once: nobody needs to settle it, and the model is told what there is."""

    async def fetch(tool_context: ToolContext) -> Any:
        """Fetch."""
        tool_context.state["raw"] = b"\xff"
        return returned

    root = LlmAgent(name="root", model=_model("root", [call("fetch", "f1")]), tools=[fetch])
    async with Node.in_memory() as node:

        @agent("run", version="1")
        async def run(process: Process, question: str) -> Any:
            effects = {"fetch": Effect.AT_MOST_ONCE}
            runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True, effects=effects)
            events = [one async for one in runner.run_async(user_id="ada", session_id="1", new_message=question)]
            return next(one.response for event in events for one in event.get_function_responses())

        told = await node.run(run, "p", "go")
        calls = (await node.recover("p")).state.calls
    assert [call.status for call in calls.values() if call.kind == "effect"] == ["succeeded"]
    expected = {"b'\\xff\\x00'": {"result": "_wA="}, "{'all': [b'\\xff']}": {"all": ["_w=="]}}
    assert told == expected.get(repr(returned), {"error": RESULT_LOST})


async def test_a_state_that_holds_itself_is_named() -> None:
    """Bytes are kept as text."""
    names: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": "1"}
    async with Node.in_memory() as node:
        service = SeekpointSessionService(node)
        with pytest.raises(UnserializableValue, match="not JSON"):
            await service.create_session(**names, state={"a": _circle()})
        assert (await service.create_session(**names, state={"a": b"\xff", "b": b"b"})).state == {"a": "_w==", "b": "b"}


# --- sessions
async def test_a_session_that_was_made_before_a_crash_is_taken() -> None:
    """The machine dies after the session is in the journal, and before the run has recorded that."""
    doomed = crash_at(call="session create:1", ended=True, when="unsent")
    assert await doomed.run(_running(), "p", "go") == "root done"
    async with Node.in_memory(doomed.log) as node:
        found = await SeekpointSessionService(node).get_session(app_name="shop", user_id="ada", session_id="1")
    assert found is not None
    assert [event.author for event in found.events] == ["user", "root", "root", "root"]


async def test_a_session_that_others_use_is_not_taken() -> None:
    """One that has events, or another state, was not made by this run."""
    service = InMemorySessionService()
    names: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": "1"}

    @agent("creates", version="1")
    async def creates(process: Process, state: dict[str, Any]) -> dict[str, Any]:
        sessions = DurableSessions(RunCalls(process), service)
        return (await sessions.create_session(**names, state=state)).state

    session = await service.create_session(**names, state={"a": 1})
    async with Node.in_memory() as node:
        assert await node.run(creates, "same", {"a": 1}) == {"a": 1}
        with pytest.raises(AlreadyExistsError):
            await node.run(creates, "other", {"a": 2})
        await service.append_event(session, Event(author="user"))
        with pytest.raises(AlreadyExistsError):
            await node.run(creates, "used", {"a": 1})


# --- credentials
def test_tools_of_the_provider_are_recorded_without_credentials() -> None:
    """Names of a function's parameters are no credentials."""
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    transport = types.StreamableHttpTransport(url="https://mcp.example", headers={"Cookie": "s3cret"})
    key = types.ApiKeyConfig(api_key_string="s3cret")
    tools: list[Any] = [
        types.Tool(google_maps=types.GoogleMaps(auth_config=types.AuthConfig(api_key="s3cret", api_key_config=key))),
        types.Tool(exa_ai_search=types.ToolExaAiSearch(api_key="s3cret")),
        types.Tool(mcp_servers=[types.McpServer(name="shop", streamable_http_transport=transport)]),
        types.Tool(function_declarations=[types.FunctionDeclaration(name="login", parameters_json_schema=schema)]),
    ]
    config = types.GenerateContentConfig(tools=tools, http_options=types.HttpOptions(headers={"X": "s3cret"}))
    asked = str(request_json("m", LlmRequest(model="m", config=config)))
    assert "s3cret" not in asked
    assert all(name in asked for name in ("google_maps", "exa_ai_search", "https://mcp.example", "password"))


async def test_a_run_is_recorded_without_credentials() -> None:
    """Whatever the journal holds of it."""
    log = MemoryLog(partitions=1)
    tools = [types.Tool(exa_ai_search=types.ToolExaAiSearch(api_key="s3cret"))]
    root = LlmAgent(
        name="root", model=_model("root", said("done")), generate_content_config=types.GenerateContentConfig(),
        before_model_callback=lambda callback_context, llm_request: llm_request.config.__setattr__("tools", tools),
    )  # fmt: skip

    @agent("run", version="1")
    async def run(process: Process, question: str) -> int:
        runner = DurableRunner(process, app_name="shop", agent=root, auto_create_session=True)
        return len([one async for one in runner.run_async(user_id="ada", session_id="1", new_message=question)])

    async with Node.in_memory(log) as node:
        assert await node.run(run, "p", "go") == 1
    entries = str(history_of(log, "p"))
    assert "exa_ai_search" in entries
    assert "s3cret" not in entries
