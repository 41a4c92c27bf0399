"""Agents of the SDK that run in a workflow are durable: their models, and their tools."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from agnt5 import Agent, WorkflowContext, tool, workflow
from agnt5.activation import (
    ActivationKind,
    ActivationRecoveryPolicy,
)
from agnt5.agent import AgentRegistry
from agnt5.exceptions import ActivationError, ActivationErrorCode, WaitingForUserInputException
from agnt5.tool import AskUserTool

from agnt5_runs import PROCESS, once, statuses
from scripted_chat_server import scripted_chat, tool_call
from seekpoint import Node
from seekpoint.adapters.agnt5 import DurableWorkflows

Code = ActivationErrorCode


async def test_an_agent_of_the_sdk_is_durable(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its models and its tools are activations: no model is asked again after a failure."""
    asked: list[int] = []
    looked: list[str] = []

    @tool
    async def look(ctx, what: str) -> str:  # type: ignore[no-untyped-def]  # the SDK reads no postponed annotation
        """Look something up."""
        looked.append(what)
        return f"seen {what}"

    @workflow
    async def shop(ctx: WorkflowContext, wish: str) -> str:
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[look], max_iterations=9)
        result = await buyer.run(wish, context=ctx)
        if len(asked) == 3 and not looked.count("end"):
            looked.append("end")
            raise ConnectionError("the network is gone")
        return str(result.output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 2 else [tool_call("look", {"what": f"{number}"}, f"call-{number}")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        with pytest.raises(ConnectionError):
            await once(node, shop, {"wish": "shoes"})
        AgentRegistry.clear()
        assert await once(node, shop) == "bought"
    assert asked == [0, 1, 2]
    assert looked == ["0", "1", "end"]
    state = (await node.recover(PROCESS)).state
    models = [one for one in state.context.values() if isinstance(one, dict) and one.get("kind") == "MODEL"]
    assert [one["usage"]["tokens_in"] for one in models] == [50, 50, 50]


class Empty(Exception):
    """An exception that the adapter does not know."""


@pytest.mark.parametrize("failure", [Empty("nothing there"), ValueError("no"), KeyError("shoes")])
async def test_a_tool_that_failed_fails_again_in_the_same_words(
    node: Node, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:  # fmt: skip
    """The model was told of it: it would be asked otherwise if the tool succeeded later, or said something else."""

    asked: list[int] = []
    ran: Counter[str] = Counter()

    @tool(recovery_policy="idempotent_retry")
    async def look(ctx, what: str) -> str:  # type: ignore[no-untyped-def]
        """Look something up."""
        ran["look"] += 1
        if ran["look"] == 1:
            raise failure
        return "something"

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[look], max_iterations=9)
        result = await buyer.run("shoes", context=ctx)
        ran["shop"] += 1
        if ran["shop"] == 1:
            raise ConnectionError
        return str(result.output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("look", {"what": "shoes"}, "call-1")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        with pytest.raises(ConnectionError):
            await once(node, shop)
        assert await once(node, shop) == "bought"
    assert (asked, ran["look"]) == ([0, 1], 1)


async def test_a_run_stops_where_nobody_knows_what_a_tool_has_done(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The SDK's agents would tell the model that the tool failed, and go on."""
    asked: list[int] = []
    paid: list[str] = []

    @tool
    async def pay(ctx, what: str) -> str:  # type: ignore[no-untyped-def]
        """Pay."""
        paid.append(what)
        if len(paid) == 1:
            running.cancel()
            await asyncio.sleep(30)
        return "paid"

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[pay], max_iterations=9)
        return str((await buyer.run("shoes", context=ctx)).output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("pay", {"what": "shoes"}, "call-1")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        running = asyncio.create_task(once(node, shop))
        with pytest.raises(asyncio.CancelledError):
            await running
        for _ in range(2):
            with pytest.raises(ActivationError) as unknown:
                await once(node, shop)
            assert unknown.value.code is Code.UNKNOWN_OUTCOME
            assert asked == [0]
        async with DurableWorkflows(node) as workflows:
            activation_id = unknown.value.activation_id
            await workflows.activations.settle("default", "order-17", activation_id, "completed", output=b'"paid"')
            assert await workflows.run(shop, "order-17") == "bought"
    assert (asked, paid) == ([0, 1], ["shoes"])


async def test_a_tool_of_an_agent_asks_a_person(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on with the answer: no model is asked again, and the tool's outcome is not unknown."""
    asked: list[int] = []

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[AskUserTool(ctx)])
        return str((await buyer.run("shoes", context=ctx)).output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("ask_user", {"question": "Which size?"}, "call-1")]

    with scripted_chat(script, asked.append) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        async with DurableWorkflows(node) as workflows:
            with pytest.raises(WaitingForUserInputException, match=r"Which size\?"):
                await workflows.run(shop, "order-17")
            await workflows.answer("order-17", "43")
            assert await workflows.run(shop, "order-17") == "bought"
    assert asked == [0, 1]


async def test_a_tool_that_pauses_its_workflow_is_called_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Its outcome is not unknown: it has asked a person, and goes on with the answer."""
    contexts: list[WorkflowContext] = []

    @tool
    async def measure(ctx, what: str) -> str:  # type: ignore[no-untyped-def]
        """Measure."""
        return f"size {await contexts[-1].wait_for_user('Which size?')}"

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        contexts.append(ctx)
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.", tools=[measure])
        return str((await buyer.run("shoes", context=ctx)).output)

    def script(number: int) -> str | list[dict[str, Any]]:
        return "bought" if number == 1 else [tool_call("measure", {"what": "shoes"}, "call-1")]

    with scripted_chat(script) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        async with DurableWorkflows(node) as workflows:
            with pytest.raises(WaitingForUserInputException):
                await workflows.run(shop, "order-17")
            assert (await statuses(node))["tool:measure:call-1"] == "RETRY_READY"
            await workflows.answer("order-17", "43")
            assert await workflows.run(shop, "order-17") == "bought"
    found = (await node.recover(PROCESS)).state.context.values()
    tools = [one for one in found if isinstance(one, dict) and one.get("kind") == "TOOL"]
    assert [(one["attempt"], one["output"]) for one in tools] == [(2, '"size 43"')]


async def test_models_are_asked_again_where_the_program_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The SDK's agents leave a model call that was interrupted to a person."""
    asked: list[int] = []

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        AgentRegistry.clear()
        buyer = Agent(name="buyer", model="ollama/small", instructions="Buy.")
        return str((await buyer.run("shoes", context=ctx)).output)

    def interrupt(number: int) -> None:
        asked.append(number)
        if len(asked) == 1:
            loop.call_soon_threadsafe(running.cancel)
            stopped.wait(30)

    loop, stopped = asyncio.get_running_loop(), threading.Event()
    with scripted_chat(lambda number: "bought", interrupt) as url:
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        running = asyncio.create_task(once(node, shop))
        with pytest.raises(asyncio.CancelledError):
            await running
        stopped.set()
        with pytest.raises(ActivationError) as unknown:
            await once(node, shop)
        assert unknown.value.code is Code.UNKNOWN_OUTCOME
        async with DurableWorkflows(
            node, policies={ActivationKind.MODEL: ActivationRecoveryPolicy.IDEMPOTENT_RETRY}
        ) as workflows:  # fmt: skip
            state = (await node.recover(PROCESS)).state
            lost = next(key for key, one in state.context.items() if key.startswith("actv1") and one["kind"] == "MODEL")
            await workflows.activations.settle("default", "order-17", lost, "retry")
            assert await workflows.run(shop, "order-17") == "bought"
    assert asked == [0, 0]
