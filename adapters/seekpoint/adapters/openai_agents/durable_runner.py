"""Run agents of the SDK inside of a process: after a crash the run goes on, and no model call is made twice."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Any, TypeVar, cast

from agents import Agent, Model, RunConfig, RunHooks, Runner, RunResult, RunResultStreaming, RunState
from agents.items import ToolApprovalItem, TResponseInputItem
from agents.memory import Session
from agents.run import DEFAULT_MAX_TURNS, AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.run_error_handlers import RunErrorHandlers

from seekpoint import Effect, GateAnswer, Node, Process
from seekpoint.adapters.openai_agents.durable_agents import DurableAgents
from seekpoint.adapters.openai_agents.durable_models import DurableModel, DurableProvider
from seekpoint.adapters.openai_agents.durable_sessions import DurableSession
from seekpoint.adapters.openai_agents.durable_tools import parsed
from seekpoint.adapters.openai_agents.journal_session import SeekpointSession
from seekpoint.adapters.openai_agents.model_records import plain
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import InvalidOption, Refused

__all__ = ["DurableRunner"]

TContext = TypeVar("TContext")


class DurableRunner:
    """``agents.Runner`` for the code that runs as a process: ``await DurableRunner(process).run(agent, input)``.

    Each model call is a decision and each tool call a step, whose results are recorded; a run that begins again gets
    the recorded ones. ``effects`` names the tools that change something outside, each with its semantics. A call of
    such a tool is an effect: ``effects={"refund": Effect.AT_MOST_ONCE}``. A tool that needs an approval opens a gate
    with the tool's name: ``seekpoint approve PROCESS_ID TOOL``. ``approval_timeout`` (seconds) is that of each gate; a
    gate that has timed out rejects the call.

    Agents that are tools, and other calls of ``Runner.run`` in the run, are durable too.
    """

    def __init__(
        self,
        process: Process,
        *,
        effects: Mapping[str, Effect] | None = None,
        approval_timeout: float | timedelta | None = None,
    ) -> None:
        self._process = process
        self._approval_timeout = approval_timeout
        self._calls = RunCalls(process)
        declared = {name: Effect(semantics) for name, semantics in (effects or {}).items()}
        self._agents = DurableAgents(self._calls, declared)

    async def run(
        self,
        starting_agent: Agent[TContext],
        input: str | list[TResponseInputItem],
        *,
        context: TContext | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        error_handlers: RunErrorHandlers[TContext] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | str | None = None,
    ) -> RunResult:
        """Run the agent to its final output, through all approvals. The arguments are those of ``Runner.run``.

        A ``session`` may be an id: that of a ``SeekpointSession`` in the journal of the process.

        Raises what ``Runner.run`` raises; the errors of Seekpoint that end a run, as themselves; ``Refused`` for a tool
        that runs here and is no function tool; ``InvalidOption`` where ``effects`` names a tool that no agent has.
        """
        agent = self._agents.of(starting_agent)
        self._check_effects()
        if isinstance(session, str):
            session = SeekpointSession(session, cast("Node", self._process.node))
        token = _install(self)
        asked: str | list[TResponseInputItem] | RunState[TContext] = input
        try:
            while True:
                result = await Runner.run(
                    agent, asked, context=context, max_turns=max_turns, hooks=hooks, run_config=run_config,
                    error_handlers=error_handlers, previous_response_id=previous_response_id,
                    auto_previous_response_id=auto_previous_response_id, conversation_id=conversation_id,
                    session=session,
                )  # fmt: skip
                if self._calls.error is not None:
                    raise self._calls.error
                if not result.interruptions:
                    return result
                asked = await self._answered(result)
        except Exception as exc:
            if self._calls.error is None or exc is self._calls.error:
                raise
            raise self._calls.error from exc
        finally:
            _uninstall(token)

    async def _answered(self, result: RunResult) -> RunState[Any]:
        """Wait for a person's answer to each call that needs one; return the state to go on from."""
        state = result.to_state()
        asked = result.interruptions
        answers: list[GateAnswer] = await self._process.gather(*(self._gate(item) for item in asked))
        for item, answer in zip(asked, answers, strict=True):
            if answer.outcome == "approved":
                state.approve(item)
            else:
                state.reject(item, rejection_message=answer.reason)
        return state

    def _gate(self, item: ToolApprovalItem) -> Any:
        call = plain(item.raw_item)
        if isinstance(call, dict) and "arguments" in call:
            call = {"arguments": parsed(call["arguments"]), "id": call.get("call_id") or call.get("id")}
        prompt = {"agent": item.agent.name, "tool": item.name, **(call if isinstance(call, dict) else {"call": call})}
        return self._process.gate(item.name or "approval", prompt=prompt, timeout=self._approval_timeout)

    def _check_effects(self) -> None:
        if unknown := self._agents.effects.keys() - self._agents.tool_names:
            raise InvalidOption(
                "no agent has a tool of that name", process_id=self._process.process_id, option=sorted(unknown)[0],
                hint=f"effects names tools: {', '.join(sorted(self._agents.tool_names)) or 'these agents have none'}",
            )  # fmt: skip

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a run with its models, and its session, made durable."""
        config = given.get("run_config")
        config = RunConfig(**config) if isinstance(config, Mapping) else config or RunConfig()
        if config.sandbox is not None:
            raise Refused("a sandbox cannot be recorded", hint="leave run_config.sandbox out")
        model, provider, session = config.model, config.model_provider, given.get("session")
        if isinstance(model, Model) and not isinstance(model, DurableModel):
            model = DurableModel(self._calls, model)
        if not isinstance(provider, DurableProvider):
            provider = DurableProvider(self._calls, provider)
        if session is not None and not isinstance(session, DurableSession):
            session = DurableSession(self._calls, session)
        return {**given, "run_config": replace(config, model=model, model_provider=provider), "session": session}

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the durable copy of an agent."""
        return self._agents.of(agent)


_current: ContextVar[DurableRunner | None] = ContextVar("seekpoint_durable_runner", default=None)


_runs: list[Token[DurableRunner | None]] = []
"""A token of each run that is under way, in all threads."""
_installing = Lock()


def _install(durable: DurableRunner) -> Token[DurableRunner | None]:
    """Let ``Runner.run`` be durable in the run that begins here."""
    token = _current.set(durable)
    with _installing:
        _runs.append(token)
        outside = get_default_agent_runner()
        if not isinstance(outside, _NestedRuns):
            set_default_agent_runner(_NestedRuns(outside))
    return token


def _uninstall(token: Token[DurableRunner | None]) -> None:
    """End a run. After the last one, the program's own runner is behind ``Runner.run`` again."""
    _current.reset(token)
    with _installing:
        _runs.remove(token)
        outside = get_default_agent_runner()
        if not _runs and isinstance(outside, _NestedRuns):
            set_default_agent_runner(outside.outside)


class _NestedRuns(AgentRunner):
    """The runner behind ``Runner.run``: runs inside of a ``DurableRunner`` are durable, all others are as before."""

    def __init__(self, outside: AgentRunner) -> None:
        super().__init__()
        self.outside = outside

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent."""
        durable = _current.get()
        if durable is None:
            return await self.outside.run(starting_agent, input, **options)
        return await self.outside.run(durable.agent(starting_agent), input, **cast("Any", durable.options(options)))

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:
        """Run an agent, and stream what happens."""
        durable = _current.get()
        if durable is None:
            return self.outside.run_streamed(starting_agent, input, **options)
        return self.outside.run_streamed(
            durable.agent(starting_agent), input, **cast("Any", durable.options(options))
        )  # fmt: skip

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent in an event loop of its own."""
        if _current.get() is not None:
            raise Refused("a durable run has one event loop", hint="make the function async, and await Runner.run")
        return self.outside.run_sync(starting_agent, input, **options)
