"""Models whose calls are decisions of a process: each response is recorded, and later runs get the recorded one."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry

from seekpoint.adapters.adk.run_records import request_json, responses_from, responses_json
from seekpoint.adapters.run_calls import RunCalls


def durable_model(inner: BaseLlm, calls: RunCalls) -> BaseLlm:
    """Return a copy of a model that records its calls. It has the class of the model, which the toolkit looks at."""

    async def generate_content_async(request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        """Yield the recorded responses, or ask the model and record what it says. A stream comes whole."""
        name = request.model or inner.model

        async def ask(asked: dict[str, Any]) -> dict[str, Any]:
            model, request.model = inner, asked["model"]
            if asked["model"] != name:  # a rerun on another model
                model = LLMRegistry.new_llm(asked["model"])
            responses = [one async for one in model.generate_content_async(request, stream=stream) if not one.partial]
            return responses_json(asked["model"], responses)

        for response in responses_from(await calls.decide("model", ask, request_json(name, request))):
            yield response

    made = copy.copy(inner)
    vars(made)["generate_content_async"] = generate_content_async
    return made
