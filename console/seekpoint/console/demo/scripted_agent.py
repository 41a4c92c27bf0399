"""The demo's agent and its language model: it works on one case, from the first message to the last.

The request to the model is made from the conversation in the journal. So a worker that takes a case over asks what the
former owner would have asked.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from seekpoint.console.demo.outside_ledger import BilledCall, Ended, Note, Opened, Receipt
from seekpoint.console.demo.transcripts import ASSISTANT, Transcript, as_messages, digest
from seekpoint.producers import Acknowledged, Agent, Process, agent
from seekpoint.schemas.errors import HandleLost


class ScriptedModel:
    """A deterministic model: it answers from the script, the same conversation after the same time.

    It calls ``bill`` before each call begins, so a repeated call is billed twice. ``think_s`` is the shortest and the
    longest duration of a call, in seconds.
    """

    def __init__(
        self, node: str, bill: Callable[[BilledCall], None], think_s: tuple[float, float] = (0.02, 0.06)
    ) -> None:
        self._node = node
        self._bill = bill
        self._think_s = think_s

    async def answer(self, transcript: Transcript, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message that follows those of ``request`` in ``transcript``, in OpenAI's form, with the call's id.

        It must be a message of the model.
        """
        messages = request["messages"]
        turn, asked = transcript.turn_at(len(messages)), digest(messages)
        call = BilledCall(
            call_id=uuid.uuid4().hex, case=transcript.case, turn=turn, digest=asked, node=self._node, pid=os.getpid()
        )
        await asyncio.to_thread(self._bill, call)
        await asyncio.sleep(self.duration_s(asked))
        [message] = as_messages([transcript.lines[len(messages)]])
        return {"id": call.call_id, "choices": [{"message": message}]}

    def duration_s(self, asked: str) -> float:
        """Return the duration of a call with the conversation of this digest."""
        shortest, longest = self._think_s
        return shortest + (longest - shortest) * int(asked[:4], 16) / 0xFFFF


SUPPORT = "support"


def support_agent(
    transcripts: Iterable[Transcript], model: ScriptedModel, node: str, note: Callable[[Note], None]
) -> Agent:
    """Return the agent for the cases of ``transcripts``. It calls ``note`` for each acknowledgement, at once."""
    scripts = {transcript.case: transcript for transcript in transcripts}

    @agent(SUPPORT)
    async def support(process: Process, facts: dict[str, Any]) -> dict[str, Any]:
        how, notes = "stopped", _CaseNotes(process, node, note)
        transcript, answers = scripts[process.process_id], 0
        try:
            await process.confirm()
            notes.opened()
            notes.acknowledged(await process.update_many({**facts, "answers": 0}), "context_updated_many")
            for line in transcript.lines:
                [message], call_id = as_messages([line]), None
                if line.by_model:
                    request = {"messages": as_messages(process.state.conversation)}
                    answer = await process.decide("model", partial(model.answer, transcript), request)
                    message, call_id = answer["choices"][0]["message"], answer["id"]
                notes.acknowledged(await process.say(**message), "message_said", call_id)
                if line.by_model:
                    answers += 1
                    notes.acknowledged(await process.update("answers", answers), "context_updated")
            await process.confirm()  # Kafka acknowledges also what a fenced owner sends
            how = "finished"
        except HandleLost:
            how = "fenced"
            raise
        finally:
            note(Ended(case=process.process_id, node=node, how=how))
        return {"resolved": True, "model_calls": answers}

    return support


@dataclass(frozen=True, slots=True)
class _CaseNotes:
    """The notes of one worker about one case."""

    process: Process
    node: str
    note: Callable[[Note], None]

    def opened(self) -> None:
        """Note the state that the worker found."""
        state, report = self.process.written, self.process.report.to_dict()
        done = sum(message.role == ASSISTANT for message in state.conversation)
        self.note(
            Opened(
                case=self.process.process_id, node=self.node, epoch=state.epoch, seq=state.seq, offset=state.offset,
                hash=state.hash, model_calls_done=done, report=report,
            )
        )  # fmt: skip

    def acknowledged(self, place: Acknowledged, kind: str, call_id: str | None = None) -> None:
        """Note an acknowledgement. A write that the journal had before this worker came has no offset here."""
        if place.offset >= 0:
            self.note(
                Receipt(
                    case=self.process.process_id, node=self.node, seq=place.seq, offset=place.offset, kind=kind,
                    call_id=call_id,
                )
            )  # fmt: skip
