"""Agents of Pydantic AI whose models follow a script by what they are asked, not by how often."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic_ai import ModelMessage, ModelRequest, ModelResponse, RequestUsage, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

__all__ = ["called", "outputs_in", "said", "scripted"]

Script = Mapping[int, Sequence[TextPart | ToolCallPart]] | Callable[[int], Sequence[TextPart | ToolCallPart]]
USAGE = RequestUsage(input_tokens=50, output_tokens=20, cache_read_tokens=10)


def said(text: str) -> list[TextPart | ToolCallPart]:
    """An answer that is a text."""
    return [TextPart(text)]


def called(tool: str, call_id: str, **arguments: Any) -> ToolCallPart:
    """A call of a tool."""
    return ToolCallPart(tool, arguments, tool_call_id=call_id)


def scripted(name: str, script: Script, on_call: Callable[[int], object] = lambda number: None) -> FunctionModel:
    """Return a model that answers by the number of tool outputs it is shown; ``on_call`` is told it before."""

    def answer(messages: list[ModelMessage]) -> Sequence[TextPart | ToolCallPart]:
        number = outputs_in(messages)
        on_call(number)
        return script(number) if callable(script) else script[number]

    async def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=list(answer(messages)), usage=USAGE, model_name=name)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for index, part in enumerate(answer(messages)):
            if isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word + " "
            else:
                yield {index: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}

    return FunctionModel(whole, stream_function=stream, model_name=name)


def outputs_in(messages: Sequence[ModelMessage]) -> int:
    """How many outputs of tools the messages have; a question to try again counts too."""
    requests = [one for one in messages if isinstance(one, ModelRequest)]
    return sum(part.part_kind not in ("user-prompt", "system-prompt") for one in requests for part in one.parts)
