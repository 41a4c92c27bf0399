"""What a tool returns comes back in a replay as it was, or the model is told why it does not."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_runs import CALLS, counted_model, crashed, model, run_of
from scripted_llms import call, said
from seekpoint import Effect, Node, Process, agent
from seekpoint.adapters.adk import DurableRunner, SeekpointSessionService
from seekpoint.adapters.run_calls import RESULT_LOST
from seekpoint.errors import UnserializableValue


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


class Unprintable:
    """A value of which there is no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


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

    root = LlmAgent(name="root", model=counted_model("root", [call("fetch", "f1")]), tools=[fetch])
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
