"""A model that counts its calls, what it is asked and answers, and what the journal has of it."""

from __future__ import annotations

from typing import Any

from seekpoint.producers import Node
from seekpoint.schemas import bodies as b

__all__ = ["ANSWER", "REQUEST", "Model", "bodies"]

REQUEST = {"model": "m-1", "messages": [{"role": "user", "content": "Where is my order?"}], "top_p": 0.5, "seed": 1}
ANSWER = {
    "model": "m-1-2026",
    "choices": [{"message": {"content": "On its way.", "tool_calls": [{"id": "c1"}]}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5},
}


class Model:
    """A model that counts its calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers) or [ANSWER]
        self.asked: list[Any] = []

    async def __call__(self, request: Any) -> Any:
        """The next answer; the last one for ever."""
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def bodies(node: Node, process_id: str, kind: type[b.Body]) -> list[Any]:
    """The entries of a kind, in log order."""
    return [one.entry.body async for one in node.entries(process_id, kinds=[kind.KIND])]
