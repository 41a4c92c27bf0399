"""Copies of agents whose model calls and tool calls are recorded. Handoffs lead from copy to copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents import Agent, Model, RunContextWrapper
from agents.handoffs import Handoff

from seekpoint import Effect
from seekpoint.adapters.openai_agents.durable_models import DurableModel
from seekpoint.adapters.openai_agents.durable_tools import durable_tool, is_agent_tool
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import Refused


class DurableAgents:
    """The copies that one ``DurableRunner`` has made."""

    def __init__(self, calls: RunCalls, effects: Mapping[str, Effect]) -> None:
        self._calls = calls
        self.effects = effects
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        """By the id of an agent: the agent, and its copy."""
        self._made: set[int] = set()
        self.tool_names: set[str] = set()
        """The names of the tools of all agents so far, and of those that they lead to: with and without namespace."""
        self._noted: set[int] = set()

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent; of a copy itself. Raises ``Refused`` for what cannot be recorded."""
        if id(agent) in self._made:
            return agent
        if id(agent) in self._copies:
            return self._copies[id(agent)][1]
        if agent.mcp_servers:
            raise Refused(
                "the calls of an agent's MCP servers cannot be recorded yet", agent=agent.name,
                hint="make function tools of them, or use HostedMCPTool",
            )  # fmt: skip
        made = agent.clone(tools=[durable_tool(tool, self._calls, self.effects) for tool in agent.tools], handoffs=[])
        self._copies[id(agent)] = agent, made
        self._made.add(id(made))
        self._note_tools(agent)
        if isinstance(agent.model, Model):
            made.model = DurableModel(self._calls, agent.model)
        made.handoffs = [
            self._handoff(one) if isinstance(one, Handoff) else self.of(one) for one in agent.handoffs
        ]  # an agent may lead back to this one: it finds the copy
        return made

    def _note_tools(self, agent: Agent[Any]) -> None:
        """Note the tools of an agent, of its handoffs, and of the agents that are its tools."""
        if id(agent) in self._noted:
            return
        self._noted.add(id(agent))
        for tool in agent.tools:
            if is_agent_tool(tool):
                self._note_known(getattr(tool, "_agent_instance", None))
            else:
                self.tool_names |= {tool.name, getattr(tool, "qualified_name", tool.name)}
        for one in agent.handoffs:
            self._note_known(_target_of(one) if isinstance(one, Handoff) else one)

    def _note_known(self, agent: object) -> None:
        if isinstance(agent, Agent):
            self._note_tools(agent)

    def _handoff(self, handoff: Handoff[Any, Any]) -> Handoff[Any, Any]:
        invoke = handoff.on_invoke_handoff

        async def invoked(context: RunContextWrapper[Any], arguments: str) -> Any:
            return self.of(await invoke(context, arguments))

        return replace(handoff, on_invoke_handoff=invoked)


def _target_of(handoff: Handoff[Any, Any]) -> object:
    """Return the agent that a handoff leads to; None if only its call tells."""
    reference = getattr(handoff, "_agent_ref", None)
    return None if reference is None else reference()
