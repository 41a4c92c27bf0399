"""The demo's language model: it says what the script says, takes its time, and sends a bill."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from seekpoint.console.demo.outside_ledger import BilledCall
from seekpoint.console.demo.transcripts import Line, Transcript, digest

__all__ = ["ModelAnswer", "ScriptedModel"]


class ModelAnswer(NamedTuple):
    """What the model said, and the call on its bill."""

    line: Line
    call_id: str


class ScriptedModel:
    """Deterministic by case and turn: the same conversation gets the same answer after the same time.

    ``bill`` is told of each call before it begins, whatever becomes of it: a call that is made twice is paid twice.
    ``think_s`` is the shortest and the longest time a call takes, in seconds.
    """

    def __init__(
        self, node: str, bill: Callable[[BilledCall], None], think_s: tuple[float, float] = (0.02, 0.06)
    ) -> None:
        self._node = node
        self._bill = bill
        self._think_s = think_s

    async def answer(self, transcript: Transcript, conversation: Sequence[Any]) -> ModelAnswer:
        """The next message of ``transcript`` after ``conversation``, which must be followed by one of the model's."""
        asked = digest(conversation)
        call = BilledCall(
            call_id=uuid.uuid4().hex,
            case=transcript.case,
            turn=transcript.turn_at(len(conversation)),
            digest=asked,
            node=self._node,
            pid=os.getpid(),
            at=time.time(),
        )
        await asyncio.to_thread(self._bill, call)
        await asyncio.sleep(self.duration_s(asked))
        return ModelAnswer(transcript.lines[len(conversation)], call.call_id)

    def duration_s(self, asked: str) -> float:
        """How long the model thinks about the conversation with this digest."""
        shortest, longest = self._think_s
        return shortest + (longest - shortest) * int(asked[:4], 16) / 0xFFFF
