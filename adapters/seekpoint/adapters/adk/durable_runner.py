"""Run agents of the toolkit inside of a process: after a crash the run goes on, and no model call is made twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid5

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.artifacts import BaseArtifactService
from google.adk.events.event import Event
from google.adk.memory import BaseMemoryService
from google.adk.platform import uuid as platform_uuid
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from seekpoint import Effect, Node, Process
from seekpoint.adapters.adk.durable_plugin import DurablePlugin
from seekpoint.adapters.adk.durable_sessions import DurableSessions
from seekpoint.adapters.adk.durable_tools import DurableTools
from seekpoint.adapters.adk.session_service import SeekpointSessionService
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import InvalidOption, Refused


class DurableRunner:
    """``Runner`` for the code that runs as a process.

    Each model call is a decision and each tool call a step, whose results are recorded; a run that begins again gets
    the recorded ones. ``effects`` names the tools that change something outside, each with its semantics. A call of
    such a tool is an effect: ``effects={"refund": Effect.AT_MOST_ONCE}``. A tool that asks for a confirmation opens a
    gate with the tool's name: ``seekpoint approve PROCESS_ID TOOL``. ``approval_timeout`` (seconds) is that of each
    gate; a gate that has timed out rejects the call.

    The other arguments are those of ``Runner``. Without ``session_service``, sessions are in the journal of the
    process: ``SeekpointSessionService(process.node)``.

    Raises ``Refused`` for an app that compacts its events, and ``InvalidOption`` where ``effects`` names a tool that no
    agent has.
    """

    def __init__(
        self,
        process: Process,
        *,
        app: App | None = None,
        app_name: str | None = None,
        agent: BaseAgent | None = None,
        session_service: BaseSessionService | None = None,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        auto_create_session: bool = False,
        effects: Mapping[str, Effect] | None = None,
        approval_timeout: float | timedelta | None = None,
    ) -> None:
        self._calls = RunCalls(process)
        semantics = {name: Effect(given) for name, given in (effects or {}).items()}
        sessions = session_service or SeekpointSessionService(cast("Node", process.node))
        self._runner = Runner(
            app=app, app_name=app_name, agent=agent, session_service=DurableSessions(self._calls, sessions),
            artifact_service=artifact_service, memory_service=memory_service, auto_create_session=auto_create_session,
        )  # fmt: skip
        if app is not None and app.events_compaction_config is not None:
            raise Refused(
                "the compaction of events cannot be recorded", name=app.name,
                hint="leave events_compaction_config out, and ask for fewer events: RunConfig(get_session_config=...)",
            )  # fmt: skip
        _check_effects(semantics, self._runner.agent)
        plugin = DurablePlugin(self._calls, DurableTools(self._calls, semantics, approval_timeout))
        self._runner.plugin_manager.plugins.insert(0, plugin)  # one before it could answer, and its tools run unseen

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        new_message: types.Content | str,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, through all confirmations; a run that begins again yields all of them again.

        Raises what ``Runner.run_async`` raises; the errors of Seekpoint that end a run, as themselves.
        """
        process = self._calls.process
        ids = _Ids(await process.uuid())
        message = types.UserContent(new_message) if isinstance(new_message, str) else new_message
        events = self._runner.run_async(
            user_id=user_id, session_id=session_id, new_message=message, state_delta=state_delta, run_config=run_config
        )
        try:
            async with aclosing(events):
                while True:
                    with ids.in_use():
                        event = await anext(events, None)
                    if event is None:
                        break
                    yield event
        except Exception as exc:
            if self._calls.error is None or exc is self._calls.error:
                raise
            raise self._calls.error from exc


class _Ids:
    """The ids that the toolkit makes in a run: the same ones in each run of it."""

    def __init__(self, seed: UUID) -> None:
        self._seed = seed
        self._count = 0

    def _next(self) -> str:
        self._count += 1
        return str(uuid5(self._seed, str(self._count)))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the toolkit use these ids within the block."""
        platform_uuid.set_id_provider(self._next)
        try:
            yield
        finally:
            platform_uuid.reset_id_provider()


def _check_effects(effects: Mapping[str, Effect], root: Any) -> None:
    names = _tool_names(root, set())
    if names is not None and (unknown := sorted(effects.keys() - names)):
        raise InvalidOption(
            "no agent has a tool of that name", option=unknown[0],
            hint=f"effects names tools: {', '.join(sorted(names)) or 'these agents have none'}",
        )  # fmt: skip


def _tool_names(agent: Any, seen: set[int]) -> set[str] | None:
    """Return the names of the tools of an agent and of those under it; None if only a run tells."""
    if id(agent) in seen:
        return set()
    seen.add(id(agent))
    found: set[str] = set()
    if not isinstance(agent, BaseAgent):
        return None
    under: list[Any] = list(agent.sub_agents)
    for tool in getattr(agent, "tools", []):
        if isinstance(tool, BaseToolset) or not (isinstance(tool, BaseTool) or callable(tool)):
            return None
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if name is None:
            return None
        found.add(name)
        under += [one for one in [getattr(tool, "agent", None)] if one is not None]
    for one in under:
        more = _tool_names(one, seen)
        if more is None:
            return None
        found |= more
    return found
