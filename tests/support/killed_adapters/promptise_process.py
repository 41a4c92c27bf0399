"""A real ``AgentProcess`` of Promptise whose model follows a script, and whose runs are named by their events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from promptise import tool
from promptise.runtime import AgentProcess, ProcessConfig
from promptise.runtime.triggers.base import TriggerEvent

__all__ = ["NAME", "JournaledAgent", "ScriptedModel"]

NAME = "clerk"


class ScriptedModel(BaseChatModel):
    """A model that calls the tool ``work`` once in each run, and then answers. ``on_call`` is told each call."""

    on_call: Callable[[str], object]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> ScriptedModel:
        """Take no tools: the script knows them."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        asked = next(one for one in reversed(messages) if isinstance(one, HumanMessage))
        number = int(str(asked.content).split("order-")[1].split()[0].strip("\"'}.,"))
        after_tool = isinstance(messages[-1], ToolMessage)
        self.on_call(f"{'answer' if after_tool else 'model'}-{number}")
        calls = [] if after_tool else [{"name": "work", "args": {"number": number}, "id": f"call-{number}"}]
        message = AIMessage(content=f"did {number}" if after_tool else "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class JournaledAgent:
    """One agent process. Its tool ``work`` adds the number to the context value ``done``."""

    def __init__(self, on_call: Callable[[str], object] = lambda call: None, **config: Any) -> None:
        @tool
        async def work(number: int) -> str:
            """Work."""
            on_call(f"work-{number}")
            await asyncio.sleep(0.002)
            done = self.process.context.get("done") or []
            self.process.context.put("done", [*done, number])
            return f"worked {number}"

        self.process = AgentProcess(
            NAME,
            ProcessConfig.model_validate(
                {
                    "model": ScriptedModel(on_call=on_call), "extra_tools": [work], "instructions": "Work.",
                    "journal": {"level": "full", "backend": "memory"}, **config,
                }
            ),
        )  # fmt: skip

    async def run(self, number: int) -> None:
        """Have the process handle an event; return once its result and its checkpoint are in the journal."""
        process = self.process
        before, checkpoint = process._invocation_count, process._journal_checkpoint
        over = asyncio.Event()

        async def noted() -> None:
            await checkpoint()
            if process._invocation_count > before:
                over.set()

        process._journal_checkpoint = noted  # type: ignore[method-assign]
        event = TriggerEvent("orders", "manual", event_id=f"order-{number}", payload={"order": f"order-{number} "})
        await process.inject(event)
        async with asyncio.timeout(60):
            await over.wait()
        process._journal_checkpoint = checkpoint  # type: ignore[method-assign]
