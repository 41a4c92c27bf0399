"""Models whose calls are decisions of a process: each response is recorded, and later runs get the recorded one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelProvider, ModelResponse, ModelSettings, ModelTracing, Tool
from agents.agent_output import AgentOutputSchemaBase
from agents.handoffs import Handoff
from agents.items import TResponseInputItem, TResponseStreamEvent
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage
from openai.types.responses.response_prompt_param import ResponsePromptParam

from seekpoint.adapters.openai_agents.model_records import request_json, response_from, response_json
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import Refused


class DurableProvider(ModelProvider):
    """A provider whose models are durable."""

    def __init__(self, calls: RunCalls, inner: ModelProvider) -> None:
        self._calls = calls
        self.inner = inner

    def get_model(self, model_name: str | None) -> Model:
        """Return the durable model of that name."""
        return DurableModel(self._calls, self.inner.get_model(model_name), model_name, self.inner)

    async def aclose(self) -> None:
        """Close the provider that was given."""
        await self.inner.aclose()


class DurableModel(Model):
    """A model whose calls are decisions. A rerun on another model asks the provider for that one."""

    def __init__(
        self, calls: RunCalls, inner: Model, name: str | None = None, provider: ModelProvider | None = None
    ) -> None:
        self._calls = calls
        self._inner = inner
        self._provider = provider
        known = name or getattr(inner, "model", None)
        self._name = str(known) if known is not None else None

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        """Return the recorded response, or ask the model and record what it says."""
        request = request_json(
            self._name, system_instructions, input, model_settings, tools, output_schema, handoffs,
            previous_response_id=previous_response_id, conversation_id=conversation_id, prompt=prompt,
        )  # fmt: skip

        async def ask(asked: dict[str, Any]) -> dict[str, Any]:
            name = asked.get("model")
            model = self._inner if name == self._name else self._other(name)
            response = await model.get_response(
                system_instructions, input, model_settings, tools, output_schema, handoffs, tracing,
                previous_response_id=previous_response_id, conversation_id=conversation_id, prompt=prompt,
            )  # fmt: skip
            return response_json(response, name)

        return response_from(await self._calls.decide("model", ask, request))

    def _other(self, name: str | None) -> Model:
        """Return the model that a rerun asks for."""
        if self._provider is None:
            raise Refused(
                "a rerun on another model needs an agent whose model is a name", asked=name,
                hint='Agent(model="NAME"), and run_config=RunConfig(model_provider=...) if it is not OpenAI\'s',
            )  # fmt: skip
        return self._provider.get_model(name)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield one event, with the whole response: a run that is streamed gets each response when it is recorded."""
        response = await self.get_response(
            system_instructions, input, model_settings, tools, output_schema, handoffs, tracing,
            previous_response_id=previous_response_id, conversation_id=conversation_id, prompt=prompt,
        )  # fmt: skip
        usage = response.usage
        yield ResponseCompletedEvent(
            type="response.completed",
            sequence_number=0,
            response=Response(
                id=response.response_id or "", created_at=0, model=self._name or "", object="response",
                output=response.output, tool_choice="auto", tools=[], parallel_tool_calls=True,
                usage=ResponseUsage(
                    input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
                    total_tokens=usage.total_tokens, input_tokens_details=usage.input_tokens_details,
                    output_tokens_details=usage.output_tokens_details,
                ),
            ),
        )  # fmt: skip
