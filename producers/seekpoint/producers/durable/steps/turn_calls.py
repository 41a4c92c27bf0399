"""Turns: the rounds of a loop without end. A turn that ended leaves the state; a resume starts at the open turn."""

from __future__ import annotations

import asyncio

from seekpoint.producers.durable.call_results import Turn
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.parent_answers import note_parent_answers
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused


class TurnCalls(DurableCalls):
    """The call ``turns`` of a process."""

    def turns(self) -> Turns:
        """Iterate over turns: ``async for turn in process.turns()``. A state keeps the calls of a turn until its end.

        So state and resume cost what one turn has, however many there were. ``break`` leaves the turn open: what
        follows the loop belongs to it. One loop a run, in the main code. Every task a turn starts must end in it.
        """
        return Turns(self._durable)


class Turns:
    """The iterator behind ``turns``."""

    def __init__(self, process: DurableProcess) -> None:
        self._process = process
        self._number = 0
        self._ending: asyncio.Future[int] | None = None

    def __aiter__(self) -> Turns:
        return self

    async def __anext__(self) -> Turn:
        """End the open turn, if there is one, and begin the next."""
        process = self._process
        process.matcher.check_is_main("turns()")
        if self._number:
            await self._end()
        else:
            await self._begin_loop()
        self._number += 1
        process.begin_turn(self._number)
        return Turn(self._number)

    async def _begin_loop(self) -> None:
        matcher = self._process.matcher
        if matcher.turn:
            raise Refused(
                "a process has one loop of turns", process_id=matcher.process_id, hint="end the first loop last"
            )
        await self._process.let_new_tasks_call(matcher.unread_before_turns)
        matcher.check_before_turns()
        self._number = self._process.written.turn

    async def _end(self) -> None:
        """Send the end without waiting: the next turn's first step waits for it. One end at most is unacknowledged."""
        process = self._process
        await process.children.join(f"{self._number}/")
        await process.flush()
        await process.check_read(f"{self._number}/")
        if self._ending is not None:
            await self._ending
        if process.matcher.asked_aside:
            note_parent_answers(process)
        self._ending = process.sent(b.TurnEnded(self._number))
