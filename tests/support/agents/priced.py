"""An agent that calls a model once, and what the model counted."""

from __future__ import annotations

from typing import Any

from seekpoint.producers import Process, agent


async def ask(request: Any) -> dict[str, Any]:
    """Answer, with the usage that a provider reports."""
    return {"text": "yes", "model": "small", "usage": {"input_tokens": 900, "output_tokens": 40}}


@agent("priced")
async def priced(process: Process, given: Any = None) -> str:
    """Call the model."""
    answer: str = (await process.decide("ask", ask, {"model": "small"}))["text"]
    return answer
