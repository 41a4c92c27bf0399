"""The demo's agent: it works on one case, from the state in the journal to the end.

The agent keeps nothing in memory between steps. The conversation decides the next step, so an agent that takes over
a case does what the former owner would have done.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from seekpoint.console.demo.outside_ledger import Note, Opened, Receipt
from seekpoint.console.demo.scripted_model import ScriptedModel
from seekpoint.console.demo.transcripts import ASSISTANT, Transcript
from seekpoint.producers import Acknowledged, Process
from seekpoint.schemas.state.lifecycle import Lifecycle

__all__ = ["ScriptedAgent"]

_UP = {Lifecycle.CREATED: Lifecycle.STARTING, Lifecycle.STARTING: Lifecycle.RUNNING}
_DOWN = {Lifecycle.RUNNING: Lifecycle.STOPPING, Lifecycle.STOPPING: Lifecycle.STOPPED}


class ScriptedAgent:
    """Writes ``transcript`` to ``process``. It calls ``note`` for each acknowledgement, before the next step."""

    def __init__(
        self, process: Process, transcript: Transcript, model: ScriptedModel, node: str, note: Callable[[Note], None]
    ) -> None:
        self._process = process
        self._transcript = transcript
        self._model = model
        self._node = node
        self._note = note

    async def work(self) -> None:
        """Work on the case until it is finished. Raises what the process's calls raise."""
        self._note(self._opened())
        await self._climb(_UP)
        state = self._process.state
        if len(state.conversation) < len(self._transcript.lines) or state.invocation is not None:
            await self._converse("ticket" if not state.conversation else "taken over")
        await self._climb(_DOWN)
        await self._process.finish({"resolved": True, "model_calls": self._transcript.model_calls})
        state = self._process.state
        self._acknowledged(Acknowledged(state.seq, state.offset), "finished")

    async def _converse(self, trigger: str) -> None:
        process = self._process
        async with process.invocation(trigger, {"case": self._transcript.case}) as invocation:
            if "answers" not in process.state.values_json:
                facts = await process.update_many({**self._transcript.facts, "answers": 0})
                self._acknowledged(facts, "context_updated_many")
            while len(process.state.conversation) < len(self._transcript.lines):
                await self._say_next()
            invocation.result = {"messages": len(process.state.conversation)}

    async def _say_next(self) -> None:
        """Write the next message. A message of the model costs a model call; all others come from the script."""
        conversation = self._process.state.conversation
        line, call_id = self._transcript.lines[len(conversation)], None
        if line.by_model:
            await self._process.confirm()  # a node that slept and lost the case must not pay for a call
            line, call_id = await self._model.answer(self._transcript, conversation)
        said = await self._process.say(
            line.role, line.content, tool_calls=line.tool_calls, tool_call_id=line.tool_call_id, name=line.name
        )
        self._acknowledged(said, "message_said", call_id)
        if line.by_model:
            self._acknowledged(await self._process.update("answers", self._answers()), "context_updated")

    async def _climb(self, steps: dict[Lifecycle, Lifecycle]) -> None:
        while (step := steps.get(self._process.state.lifecycle)) is not None:
            self._acknowledged(await self._process.transition(step), "lifecycle_changed")

    def _answers(self) -> int:
        return sum(message.role == ASSISTANT for message in self._process.state.conversation)

    def _opened(self) -> Opened:
        state = self._process.state
        return Opened(
            case=self._transcript.case,
            node=self._node,
            at=time.time(),
            epoch=state.epoch,
            seq=state.seq,
            offset=state.offset,
            hash=state.hash,
            model_calls_done=self._answers(),
            report=self._process.report.to_dict(),
        )

    def _acknowledged(self, place: Acknowledged, kind: str, call_id: str | None = None) -> None:
        self._note(
            Receipt(
                case=self._transcript.case,
                node=self._node,
                at=time.time(),
                seq=place.seq,
                offset=place.offset,
                kind=kind,
                call_id=call_id,
            )
        )
