"""Durable runs of the Agent Development Kit: calls are made once, whatever crashes in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.agents import BaseAgent, Context, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from scripted_llms import ScriptedLlm, call, said
from seekpoint import Effect, MemoryLog, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner, SeekpointSessionService, idempotency_key
from seekpoint.errors import EffectUnknown, InvalidOption, Refused, ReplayDivergence
from seekpoint.testing import crash_at

CALLS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _forgets() -> None:
    CALLS.clear()


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


async def test_a_session_that_another_run_has_changed_is_refused() -> None:
    """A stale session is the fence: the run ends with the toolkit's error."""

    async def interfere(tool_context: ToolContext) -> str:
        """Append to the session behind the run's back."""
        service = SeekpointSessionService(nodes[0])
        session = await service.get_session(app_name="shop", user_id="ada", session_id="1")
        assert session is not None
        await service.append_event(session, Event(author="somebody"))
        return "ok"

    root = LlmAgent(
        name="a", model=model(lambda number: said("x") if number else [call("interfere")]), tools=[interfere]
    )
    async with Node.in_memory() as node:
        nodes = [node]
        with pytest.raises(StaleSessionError):
            await node.run(run_of(root), "p", "x")
        assert await stored(node) == ["user", "a", "somebody"]


# --- agents of agents
def _specialist(name: str, results: int = 1) -> LlmAgent:
    return LlmAgent(
        name=name, description=name,
        model=model(lambda number: said(f"{name} is done") if number >= results else [call("look", what=name)]),
        tools=[look],
    )  # fmt: skip


def _trees() -> dict[str, BaseAgent]:
    helper = LlmAgent(
        name="helper", model=model(lambda number: said("helped") if number else [call("look", what="h")]), tools=[look]
    )
    asks = {0: [call("helper", "h1", request="help me")]}
    moves = {0: [call("transfer_to_agent", "t1", agent_name="other")]}
    return {
        "tool": LlmAgent(
            name="root", model=model(lambda number: asks.get(number, said("done"))), tools=[AgentTool(helper)]
        ),
        "transfer": LlmAgent(
            name="root", model=model(lambda number: moves.get(number, said("?"))), sub_agents=[_specialist("other", 2)]
        ),
        "sequence": SequentialAgent(name="root", sub_agents=[_specialist("one"), _specialist("two", 2)]),
        "parallel": ParallelAgent(name="root", sub_agents=[_specialist("left"), _specialist("right")]),
        "loop": LoopAgent(name="root", sub_agents=[_specialist("again", 2)], max_iterations=2),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*Workflow:DeprecationWarning", "ignore:.*plugins:DeprecationWarning")
@pytest.mark.parametrize("kind", ["tool", "transfer", "sequence", "parallel", "loop"])
async def test_agents_of_agents_are_recorded(kind: str) -> None:
    """Each machine dies after the next call that was recorded, until the run ends."""
    run = run_of(_trees()[kind])
    async with Node.in_memory() as node:
        plain = await node.run(run, "p", "go")
        keys = list((await node.recover("p")).state.calls)
    once = dict(CALLS)
    assert sum(once.values()) >= 4
    assert not any(key.rpartition("/")[2].startswith("helper:") for key in keys)
    ends = [key for key in keys if key.rpartition("/")[2].split(":")[0] in ("model", "look")]
    for end in ends[:: max(1, len(ends) // 3)]:
        CALLS.clear()
        found = await crash_at(call=end, ended=True, when="acknowledged").run(run, f"p-{end.replace('/', '-')}", "go")
        assert sorted(found) == sorted(plain)
        in_flight = 1 if kind == "parallel" else 0  # that of the other branch
        assert set(CALLS) == set(once)
        assert CALLS.total() - sum(once.values()) <= in_flight


# --- confirmations
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


# --- results, streams, options
async def test_results_come_back_as_they_were() -> None:
    """Media, lists, objects of models, and what is no JSON."""

    def picture() -> list[Any]:
        """Take a picture."""
        return [types.Part.from_bytes(data=b"\\x00png", mime_type="image/png"), {"size": 4, "kind": str}]

    llm = model(lambda number: said("done") if number else [call("picture")])
    run = run_of(LlmAgent(name="a", model=llm, tools=[picture]))
    assert await crashed(run, "picture", nth=1) == ["done"]
    response = (llm.asked[-1].contents[-1].parts or [types.Part()])[0].function_response
    assert response is not None
    assert response.parts is not None
    assert response.parts[0].inline_data is not None
    assert response.parts[0].inline_data.data == b"\\x00png"
    assert response.response == {"result": [{"size": 4, "kind": "<class 'str'>"}]}


async def test_a_result_that_is_too_large_is_told_to_the_model() -> None:
    """The tool has run, and is not called again."""

    def dump() -> str:
        """Give everything."""
        CALLS.update(["dump"])
        return "x" * 2_000_000

    llm = model(lambda number: said("done") if number else [call("dump")])
    async with Node.in_memory() as node:
        assert await node.run(run_of(LlmAgent(name="a", model=llm, tools=[dump])), "p", "x") == ["done"]
    assert CALLS["dump"] == 1
    response = (llm.asked[-1].contents[-1].parts or [types.Part()])[0].function_response
    assert response is not None
    assert "has run" in str(response.response)


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


async def test_a_long_session_is_read_once() -> None:
    """Though it does not fit into an entry."""
    service = InMemorySessionService()
    session = await service.create_session(app_name="shop", user_id="ada", session_id="1")
    for _ in range(3):
        event = Event(author="user", content=types.UserContent("x" * 500_000))
        await service.append_event(session, event)
    root = LlmAgent(name="a", model=model(lambda number: said("done")), include_contents="none")
    run = run_of(root, session_service=service)
    assert await crashed(run, "model", nth=1) == ["done"]
    found = await service.get_session(app_name="shop", user_id="ada", session_id="1")
    assert found is not None
    assert len(found.events) == 7  # two runs


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


async def test_sessions_of_another_service_are_steps() -> None:
    """Their calls are recorded too."""
    service: BaseSessionService = InMemorySessionService()
    async with Node.in_memory() as node:
        assert await node.run(run_of(buyer(), session_service=service), "p", "x") == ["done"]
    found = await service.list_sessions(app_name="shop")
    assert [one.id for one in found.sessions] == ["1"]
