"""Tools whose calls are steps or effects of a process, and whose confirmations are gates."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.plugin_manager import PluginManager
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from seekpoint import Effect, GateAnswer
from seekpoint.adapters.adk.run_records import actions_json, apply_actions, result_from, result_json
from seekpoint.adapters.run_calls import RESULT_LOST, RunCalls, has_run
from seekpoint.errors import EffectFailed, Refused, UnserializableValue

_CLIENT_ID = "adk-"
"""The toolkit gives such an id to a call to which the model has given none."""


class DurableTools:
    """The tools of one run."""

    def __init__(
        self, calls: RunCalls, effects: Mapping[str, Effect], approval_timeout: float | timedelta | None
    ) -> None:
        self._calls = calls
        self._effects = effects
        self._approval_timeout = approval_timeout
        self._made: dict[int, tuple[BaseTool, BaseTool]] = {}
        """By the id of a tool, and of its copy: the tool, and the copy."""

    def of(self, tool: BaseTool, plugin: BasePlugin) -> BaseTool:
        """Return the copy of a tool whose calls are recorded. One that runs agents is recorded by their calls.

        ``plugin`` records these. Raises ``Refused`` for a tool that cannot be recorded as the program asks.
        """
        if isinstance(tool, AgentTool) or any(kind.__name__ == "NodeTool" for kind in type(tool).__mro__):
            if tool.name in self._effects:
                raise Refused(
                    "a tool that runs agents is no effect: the calls of its agents are recorded one by one",
                    name=tool.name, hint="leave it out of effects, and name the tools of its agents there",
                )  # fmt: skip
            if isinstance(tool, AgentTool) and id(tool) not in self._made:
                runner = _running_agent(tool, plugin)
                self._made[id(tool)] = self._made[id(runner)] = tool, runner
            return self._made[id(tool)][1] if id(tool) in self._made else tool
        if id(tool) not in self._made:
            if isinstance(tool, FunctionTool) and _is_generator(tool.func):
                raise Refused(
                    "the calls of a tool that yields cannot be recorded", name=tool.name,
                    hint="return one value, or make a list of them",
                )  # fmt: skip
            made = copy.copy(tool)
            vars(made).update(run_async=_Recorded(tool, self), check_require_confirmation=_never)
            self._made[id(tool)] = self._made[id(made)] = tool, made
        return self._made[id(tool)][1]

    async def called(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Call a tool, and ask a person before where the tool wants that."""
        if await tool.check_require_confirmation(args, context) is True:
            answer = await self._gate(tool, args, context, None)
            context.tool_confirmation = _confirmation(answer)
            if not answer.approved:
                return _rejected(answer)
        result = await self._recorded(tool, args, context)
        asked = context.actions.requested_tool_confirmations.pop(context.function_call_id or "", None)
        if asked is None:
            return result
        context.actions.skip_summarization = None  # it was for the answer that asks
        answer = await self._gate(tool, args, context, asked)
        context.tool_confirmation = _confirmation(answer, asked)
        return await self._recorded(tool, args, context)

    async def _recorded(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        async def body() -> dict[str, Any]:
            value = await tool.run_async(args=args, tool_context=context)
            try:
                told = result_json(value)
            except (UnserializableValue, RecursionError):  # the tool has run: it has not failed
                told = {"error": RESULT_LOST}
            return {"value": told, "actions": actions_json(context)}

        call_id = context.function_call_id
        if call_id is not None and call_id.startswith(_CLIENT_ID):
            call_id = None
        try:
            recorded = await self._calls.tool(tool.name, body, args, call_id, self._effects.get(tool.name))
        except EffectFailed as exc:  # a person has said so: the model hears it, and the run goes on
            return {"error": exc.message}
        except Exception as exc:
            if self._calls.error is None and has_run(exc):
                return {"error": RESULT_LOST}
            raise
        if not isinstance(recorded, Mapping) or "value" not in recorded:  # a person's verdict of an effect
            return recorded
        apply_actions(recorded.get("actions", {}), context)
        return result_from(recorded["value"])

    async def _gate(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, asked: ToolConfirmation | None
    ) -> GateAnswer[Any]:
        prompt: dict[str, Any] = {"agent": context.agent_name, "tool": tool.name, "arguments": args}
        if asked is not None:
            prompt |= {name: value for name, value in (("hint", asked.hint), ("payload", asked.payload)) if value}
        return await self._calls.gate(tool.name, prompt, self._approval_timeout)


class _Recorded:
    """A call of a tool that is recorded. The toolkit makes it in place of the tool's own ``run_async``."""

    def __init__(self, tool: BaseTool, tools: DurableTools) -> None:
        self._tool = tool
        self._tools = tools

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return await self._tools.called(self._tool, args, tool_context)


def _running_agent(tool: AgentTool, plugin: BasePlugin) -> AgentTool:
    """Return a copy of a tool whose agent's calls are recorded, and which ends once its task is cancelled.

    If the tool runs its agent without the plugins of the run, the copy runs it with the one that records only.
    """
    made = copy.copy(tool)
    made.include_plugins = True

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        context, outer = tool_context, tool_context._invocation_context
        if not tool.include_plugins:
            context = copy.copy(tool_context)
            context._invocation_context = outer.model_copy(update={"plugin_manager": PluginManager([plugin])})
        try:
            return await type(tool).run_async(made, args=args, tool_context=context)
        except Exception as exc:  # the toolkit raises it in place of the cancellation, and would wait for its reader
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError from exc
            raise

    vars(made)["run_async"] = run_async
    return made


async def _never(args: dict[str, Any], context: ToolContext) -> bool:
    """Tell the toolkit that it need not ask: ``DurableTools`` does."""
    return False


def _confirmation(answer: GateAnswer[Any], asked: ToolConfirmation | None = None) -> ToolConfirmation:
    payload = answer.payload if answer.payload not in (None, {}) else asked.payload if asked else None
    return ToolConfirmation(hint=asked.hint if asked else "", confirmed=answer.approved, payload=payload)


def _rejected(answer: GateAnswer[Any]) -> dict[str, Any]:
    """Return what the toolkit tells a model, with the person's reason."""
    told = {"error": "This tool call is rejected."}
    return told if answer.reason is None else {**told, "reason": answer.reason}


def _is_generator(function: Any) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004  # an object whose call yields
    return any(inspect.isasyncgenfunction(one) or inspect.isgeneratorfunction(one) for one in (function, called))
