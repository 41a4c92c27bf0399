"""Stands for ``tests/_llm_helpers.py`` of ActiveGraph's tests, which their archive of sources does not contain."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from activegraph.llm import LLMResponse
from pydantic import BaseModel

__all__ = ["Claim", "ClaimList", "ScriptedProvider"]


class Claim(BaseModel):
    """What a model claims."""

    text: str
    confidence: float


class ClaimList(BaseModel):
    """What a model answers."""

    claims: list[Claim]


class ScriptedProvider:
    """A model that answers by a function of the messages and the schema, and remembers what it was asked."""

    default_model = "claude-sonnet-4-5"

    def __init__(self, respond_fn: Callable[[Any, Any], Any]) -> None:
        self._respond = respond_fn
        self.call_log: list[dict[str, Any]] = []
        self.token_count_log: list[dict[str, Any]] = []

    def recognizes_model(self, name: str) -> bool:
        """Take every model's name for one of its own."""
        return True

    def supports_native_structured_output(self, model: str) -> bool:
        """Take the schema in the prompt."""
        return False

    def complete(self, **asked: Any) -> LLMResponse:
        """Answer."""
        self.call_log.append(asked)
        answer = self._respond(asked["messages"], asked["output_schema"])
        is_model = isinstance(answer, BaseModel)
        return LLMResponse(
            raw_text=answer.model_dump_json() if is_model else answer, parsed=answer if is_model else None,
            input_tokens=100, output_tokens=20, cost_usd=Decimal("0.001"), latency_seconds=0.01,
            model=asked["model"], finish_reason="end_turn",
        )  # fmt: skip

    def estimate_cost(self, **asked: Any) -> Decimal:
        """Return what a call costs."""
        return Decimal("0.001")

    def count_tokens(self, **asked: Any) -> int:
        """Count tokens."""
        self.token_count_log.append(asked)
        return 100
