"""A plugin that records the calls of models and tools of all agents of a run."""

from __future__ import annotations

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from seekpoint.adapters.adk.durable_models import durable_model
from seekpoint.adapters.adk.durable_tools import DurableTools
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import Refused


class DurablePlugin(BasePlugin):
    """The plugin of one run. It returns nothing from its callbacks, so all others are called too.

    It does not answer in place of a model or a tool, because the toolkit would then leave out the callbacks of the
    agent: it puts copies in their places, which record.
    """

    def __init__(self, calls: RunCalls, tools: DurableTools) -> None:
        super().__init__(name="seekpoint")
        self._calls = calls
        self._tools = tools

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Let the agent's flow use a copy of it whose model records its calls."""
        if isinstance(agent, LlmAgent):
            if agent.code_executor is not None and not isinstance(agent.code_executor, BuiltInCodeExecutor):
                raise self._refused(
                    "what a code executor runs cannot be recorded", agent,
                    "use BuiltInCodeExecutor, whose code the model's provider runs, or a tool",
                )  # fmt: skip
            model = durable_model(agent.canonical_model, self._calls)
            callback_context._invocation_context.agent = agent.model_copy(update={"model": model})
        return None

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Let the flow use copies of the tools that record their calls."""
        try:
            for name, tool in llm_request.tools_dict.items():
                llm_request.tools_dict[name] = self._tools.of(tool, self)
        except Refused as exc:
            self._calls.error = self._calls.error or exc
            raise
        return None

    def _refused(self, message: str, agent: BaseAgent, hint: str) -> Refused:
        """Return an error that ends the run, whatever the toolkit makes of it."""
        error = Refused(message, agent=agent.name, hint=hint)
        self._calls.error = self._calls.error or error
        return error
