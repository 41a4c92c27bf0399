"""The demo's language model: it answers from the script after a delay, and writes each call to a bill."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from seekpoint.console.demo.outside_ledger import BilledCall
from seekpoint.console.demo.transcripts import Transcript, as_messages, digest


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
