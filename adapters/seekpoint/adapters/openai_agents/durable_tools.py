"""Tools whose calls are steps or effects of a process."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from agents import (
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    HostedMCPTool,
    ImageGenerationTool,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
)
from agents.exceptions import ToolTimeoutError
from agents.tool import ToolSearchTool, maybe_invoke_function_tool_failure_error_function
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from seekpoint import Effect
from seekpoint.adapters.run_calls import RESULT_LOST, RunCalls, has_run
from seekpoint.errors import Refused

_HOSTED = (CodeInterpreterTool, FileSearchTool, HostedMCPTool, ImageGenerationTool, ToolSearchTool, WebSearchTool)
"""Tools that the provider runs within a model call."""
_Part = ToolOutputText | ToolOutputImage | ToolOutputFileContent
_PART: TypeAdapter[_Part] = TypeAdapter(_Part)


def is_agent_tool(tool: Tool) -> bool:
    """Whether the tool is an agent: its model and tools are recorded, it is no call of its own."""
    return bool(getattr(tool, "_is_agent_tool", False))


def durable_tool(tool: Tool, calls: RunCalls, effects: Mapping[str, Effect]) -> Tool:
    """Return a copy of the tool whose calls are recorded; of one that ``effects`` names, with or without its namespace,
    as effects. Raises ``Refused`` for a tool that runs here in other ways."""
    if isinstance(tool, FunctionTool):
        semantics = effects.get(tool.qualified_name, effects.get(tool.name))
        return tool if is_agent_tool(tool) else _recorded(tool, calls, semantics)
    if isinstance(tool, _HOSTED):
        return tool
    raise Refused(
        "a tool of this kind runs on this machine, and its calls cannot be recorded", name=tool.name,
        kind=type(tool).__name__, hint="make a function_tool of it",
    )  # fmt: skip


def _recorded(tool: FunctionTool, calls: RunCalls, semantics: Effect | None) -> FunctionTool:
    made = copy.copy(tool)
    made.timeout_seconds = None  # the step has it: a time-out of the SDK would not be recorded
    made.on_invoke_tool = _RecordedInvoker(tool, calls, semantics)
    return made


class _RecordedInvoker:
    """A function that the SDK calls in place of a tool's own. Other attributes are those of the tool's own function."""

    def __init__(self, tool: FunctionTool, calls: RunCalls, semantics: Effect | None) -> None:
        self._tool = tool
        self._calls = calls
        self._semantics = semantics

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__agents_bind", "_tool")):  # the first would take the recording away
            raise AttributeError(name)
        return getattr(self._tool.on_invoke_tool, name)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        """Return the recorded output, or call the tool and record what it returns."""
        tool, adapter = self._tool, self._tool._output_type_adapter

        async def body() -> Any:
            return _output_json(await tool.on_invoke_tool(context, arguments), adapter)

        try:
            recorded = await self._calls.tool(
                tool.qualified_name, body, parsed(arguments), context.tool_call_id, self._semantics,
                tool.timeout_seconds,
            )  # fmt: skip
        except Exception as exc:
            if self._calls.error is not None:
                raise
            if isinstance(exc, TimeoutError) and tool.timeout_seconds is not None:
                return await _timed_out(tool, tool.timeout_seconds, context)
            if tool._use_default_failure_error_function and has_run(exc):
                return RESULT_LOST
            told = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=exc
            )  # what the tool's own failures become: of an effect that a person calls failed, of an output too large
            if told is None:
                raise
            return told
        return _output_from(recorded, adapter)


async def _timed_out(tool: FunctionTool, timeout_s: float, context: ToolContext[Any]) -> Any:
    error = ToolTimeoutError(tool_name=tool.name, timeout_seconds=timeout_s)
    if tool.timeout_behavior == "raise_exception":
        raise error
    if tool.timeout_error_function is None:
        return f"Tool '{tool.name}' timed out after {timeout_s:g} seconds."
    told = tool.timeout_error_function(context, error)
    return await told if inspect.isawaitable(told) else told


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call as an object; a text that is no JSON as it is."""
    try:
        return json.loads(arguments) if arguments else {}
    except (ValueError, TypeError):  # the tool tells the model
        return arguments


def _output_json(output: Any, adapter: TypeAdapter[Any] | None) -> Mapping[str, Any]:
    """Return the output as JSON. What the SDK would turn into a text for the model is recorded as that text."""
    if adapter is not None and not isinstance(output, str):
        typed = adapter.dump_python(output, mode="json")
        return {"typed": typed} if _is_json(typed) else {"value": str(output)}
    if isinstance(output, _Part):
        return {"part": output.model_dump(mode="json")}
    if isinstance(output, list) and output and all(isinstance(part, _Part) for part in output):
        return {"parts": [part.model_dump(mode="json") for part in output]}
    return {"value": output if _is_json(output) else str(output)}


def _output_from(recorded: Mapping[str, Any], adapter: TypeAdapter[Any] | None) -> Any:
    match recorded:
        case {"typed": value} if adapter is not None:
            return adapter.validate_python(value)
        case {"part": part}:
            return _PART.validate_python(part)
        case {"parts": parts}:
            return [_PART.validate_python(part) for part in parts]
    return recorded.get("value")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or type(value) in (str, bool, int) or (type(value) is float and isfinite(value))
