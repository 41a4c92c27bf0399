"""The demo's language model: it answers from the script after a delay, and writes each call to a bill."""

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
    """The message of the model, and the id of the call on the bill."""

    line: Line
    call_id: str


class ScriptedModel:
    """A deterministic model: the same conversation gets the same answer after the same time.

    It calls ``bill`` before each call begins, so a repeated call is billed twice. ``think_s`` is the shortest and the
    longest duration of a call, in seconds.
    """

    def __init__(
        self, node: str, bill: Callable[[BilledCall], None], think_s: tuple[float, float] = (0.02, 0.06)
    ) -> None:
        self._node = node
        self._bill = bill
        self._think_s = think_s

    async def answer(self, transcript: Transcript, conversation: Sequence[Any]) -> ModelAnswer:
        """Return the message that follows ``conversation`` in ``transcript``. It must be a message of the model."""
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
        """Return the duration of a call with the conversation of this digest."""
        shortest, longest = self._think_s
        return shortest + (longest - shortest) * int(asked[:4], 16) / 0xFFFF
