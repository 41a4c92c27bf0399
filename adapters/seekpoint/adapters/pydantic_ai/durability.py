"""The capability that makes an agent durable: its model calls, tools and discoveries are calls of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, FunctionToolset, RunContext, ToolDenied
from pydantic_ai.agent import Agent, EventStreamHandler
from pydantic_ai.agent.abstract import AbstractAgent
from pydantic_ai.capabilities.abstract import WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    conversation_id_from_run_id,
    replay_scope,
)
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT

from seekpoint import Effect, GateAnswer
from seekpoint.adapters.pydantic_ai.current_run import DurableRun, current_run
from seekpoint.adapters.pydantic_ai.operations import SeekpointOperations
from seekpoint.errors import InvalidOption, UnserializableValue


class SeekpointDurability(BaseDurabilityCapability[AgentDepsT]):
    """The capability that makes an agent durable: ``Agent(..., name="support", capabilities=[SeekpointDurability()])``.

    Inside of ``with durable(process)`` each model call is a decision and each tool call a step, whose results are
    recorded; a run that begins again gets the recorded ones. Elsewhere the agent runs as without it.

    ``effects`` names the tools that change something outside, each with its semantics. A call of such a tool is an
    effect: ``effects={"refund": Effect.AT_MOST_ONCE}``. A tool that needs an approval opens a gate with the tool's
    name: ``seekpoint approve PROCESS_ID TOOL``. ``approval_timeout`` (seconds) is that of each gate; a gate that has
    timed out denies the call. A tool with ``metadata={"seekpoint": False}`` is no call of its own: its function runs
    again in each later run, and calls of agents in it are recorded one by one.

    ``models``, ``event_stream_handler`` and ``name`` are those of all durability capabilities of Pydantic AI.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Seekpoint",
        durable_unit_noun="step",
        durable_container_noun="process",
        codec=JSON_CODEC,
        serialization_failure=lambda exc: _not_json(exc),
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key="seekpoint",
    )

    def __init__(
        self,
        *,
        effects: Mapping[str, Effect] | None = None,
        approval_timeout: float | timedelta | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._effects = {tool: Effect(semantics) for tool, semantics in (effects or {}).items()}
        self._approval_timeout = approval_timeout

    # --- what Pydantic AI asks
    @property
    def in_durable_context(self) -> bool:
        """Whether the code runs inside of a process."""
        return current_run() is not None

    def get_durable_operation_backend(self) -> SeekpointOperations:
        """Return what makes calls of a process of the operations."""
        return SeekpointOperations(self._effects)

    def get_default_run_id(self) -> str | None:
        """Return the id of the next run: the same one when the code runs again."""
        run = current_run()
        return None if run is None else run.next_run_id()

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the id of a new conversation: the same one when the code runs again."""
        return None if current_run() is None else conversation_id_from_run_id(run_id)

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        """Return when the run first began: its ``timeout`` counts from then."""
        run = current_run()
        return None if run is None or run.is_in_body else await run.process.now()

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run the agent, with tools whose calls replay in one order, and waits that are recorded."""
        run = current_run()
        if run is None:
            return await handler()
        run.check_loop()
        self._check_effects(run)
        with (
            Agent.parallel_tool_call_execution_mode("parallel_ordered_events"),
            Agent.using_sleep(run.sleep),
            replay_scope(),
        ):
            return await super().wrap_run(ctx, handler=handler)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Wait for a person's answer to each call that needs an approval; calls of external tools stay open."""
        run = current_run()
        if run is None or not requests.approvals:
            return None
        answers = await asyncio.gather(*(self._gate(run, call, requests) for call in requests.approvals))
        approvals: dict[str, bool | ToolDenied] = {
            call.tool_call_id: True if answer.outcome == "approved" else _denied(answer)
            for call, answer in zip(requests.approvals, answers, strict=True)
        }
        return requests.build_results(approvals=approvals)

    async def _gate(self, run: DurableRun, call: ToolCallPart, requests: DeferredToolRequests) -> GateAnswer:
        prompt = {"agent": self.name, "tool": call.tool_name, "arguments": _arguments(call), "id": call.tool_call_id}
        if metadata := requests.metadata.get(call.tool_call_id):
            prompt["metadata"] = JSON_CODEC.dump(dict[str, Any], metadata)
        return await run.calls.gate(call.tool_name, prompt, self._approval_timeout)

    def _check_effects(self, run: DurableRun) -> None:
        """Raise ``InvalidOption`` where ``effects`` names a tool that the agent has not; MCP's tools are not known."""
        agent = self.agent
        if not self._effects or agent is None:
            return
        known = _tool_names(agent)
        if known is not None and (unknown := self._effects.keys() - known):
            raise InvalidOption(
                "the agent has no tool of that name", process_id=run.process.process_id, option=sorted(unknown)[0],
                agent=self.name, hint=f"effects names tools: {', '.join(sorted(known)) or 'this agent has none'}",
            )  # fmt: skip


def _not_json(error: Exception) -> UnserializableValue:
    reason = str(error).partition("\n")[0]
    return UnserializableValue(
        f"a result has no JSON: {reason}", path="$", hint="return a pydantic model, a dataclass or plain values; bytes "
        "as BinaryContent(data, media_type=...)",
    )  # fmt: skip


def _arguments(call: ToolCallPart) -> Any:
    """Return the arguments of a call as an object; a text that is no JSON as it is."""
    try:
        return call.args_as_dict()
    except (ValueError, AssertionError):
        return call.args


def _denied(answer: GateAnswer) -> ToolDenied:
    if answer.timed_out:
        return ToolDenied("Nobody approved the tool call in time.")
    return ToolDenied(answer.reason) if answer.reason else ToolDenied()


def _tool_names(agent: AbstractAgent[Any, Any]) -> set[str] | None:
    """Return the names of the tools of an agent; None if only its other toolsets can tell."""
    names: set[str] = set()
    are_known = True

    def look(toolset: Any) -> None:
        nonlocal are_known
        if isinstance(toolset, FunctionToolset):
            names.update(toolset.tools)
        elif toolset.id != "<output>":
            are_known = False

    for toolset in agent.toolsets:
        toolset.apply(look)
    return names if are_known else None
