"""Agents of the OpenAI Agents SDK whose models follow a script by what they are asked, not by how often."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Model, ModelResponse, Usage
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent

__all__ = ["RepeatableModel", "outputs_in"]

Script = Callable[[int], list[TResponseOutputItem]]


class RepeatableModel(Model):
    """A model that answers by the number of tool outputs in its input. ``on_call`` is told that number before."""

    def __init__(self, script: Script, on_call: Callable[[int], object] = lambda number: None) -> None:
        self._script = script
        self._on_call = on_call

    async def get_response(
        self, system_instructions: str | None, input: str | list[TResponseInputItem], *options: Any, **more: Any
    ) -> ModelResponse:
        """Answer as the script says."""
        number = outputs_in(input)
        self._on_call(number)
        usage = Usage(requests=1, input_tokens=50, output_tokens=20, total_tokens=70)
        return ModelResponse(output=self._script(number), usage=usage, response_id=f"response-{number}")

    def stream_response(self, *options: Any, **more: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Refuse: a durable run never asks for it."""
        raise NotImplementedError


def outputs_in(asked: str | list[TResponseInputItem]) -> int:
    """How many tool outputs a model is shown."""
    return 0 if isinstance(asked, str) else sum(item.get("type") == "function_call_output" for item in asked)
