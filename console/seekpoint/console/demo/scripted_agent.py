"""The demo's agent: it works on one case, from the first message to the last.

The request to the model is made from the conversation in the journal. So a worker that takes a case over asks what the
former owner would have asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from seekpoint.console.demo.outside_ledger import Ended, Note, Opened, Receipt
from seekpoint.console.demo.scripted_model import ScriptedModel
from seekpoint.console.demo.transcripts import ASSISTANT, Transcript, as_messages
from seekpoint.producers import Acknowledged, Agent, Process, agent
from seekpoint.schemas.errors import HandleLost

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
