"""Models of the Agent Development Kit that follow a script by what they are asked, not by how often."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

__all__ = ["ScriptedLlm", "call", "results_in", "said"]

Script = Callable[[int], list[types.Part]]


def call(name: str, call_id: str | None = None, **arguments: Any) -> types.Part:
    """A call of a tool."""
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments, id=call_id))


def said(text: str) -> list[types.Part]:
    """A last answer."""
    return [types.Part(text=text)]


def results_in(request: LlmRequest) -> list[types.FunctionResponse]:
    """The results of tools that a model is shown."""
    parts = [part for content in request.contents for part in content.parts or []]
    return [part.function_response for part in parts if part.function_response is not None]


class ScriptedLlm(BaseLlm):
    """A model that answers by the number of tool results in its request. ``on_call`` is told that number before."""

    script: Any
    on_call: Any = None
    asked: list[LlmRequest] = []  # noqa: RUF012  # pydantic copies it

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer as the script says."""
        number = len(results_in(llm_request))
        self.asked.append(llm_request.model_copy())
        if self.on_call is not None:
            self.on_call(number)
        if stream:
            yield LlmResponse(content=types.ModelContent("a part"), partial=True)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=50, candidates_token_count=20, total_token_count=70
        )
        yield LlmResponse(content=types.ModelContent(self.script(number)), usage_metadata=usage)
