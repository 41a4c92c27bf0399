"""The order of answers: a recorded call is answered once what the log has before its end was asked for as well.

What is remembered is answered at once, and code that runs beside it may have something of its own to do between two
calls. Answered earlier than it was, a branch would cancel another one, or end the run, before that one came to what it
had asked. Nobody is waited for who asks for nothing: then the code is another one, and the end of the run says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from seekpoint.producers.durable.scopes import BRANCH, parent_scope

if TYPE_CHECKING:
    from seekpoint.schemas.calls import Call

__all__ = ["Order"]

_PATIENCE_S = 5.0
"""How long nobody has to ask for anything before nobody is waited for any more."""
_QUIET_ROUNDS = 10
"""Rounds of the event loop in which nobody asks for anything: what was perhaps asked for is not waited for longer."""
_OVER = frozenset({"succeeded", "failed"})
_ASKS_AGAIN = frozenset({"step", "decision"})


class _Wait(Enum):
    """What a call is held back by."""

    NOTHING = 0
    PERHAPS = 1
    """What was perhaps asked for before it ended."""
    SURELY = 2


class Order:
    """What ``records`` have that a run will ask for, in the order of the log. ``read``: what it has asked for."""

    def __init__(self, records: Mapping[str, Call], read: Collection[str]) -> None:
        self._read = read
        asked = sorted(_to_be_asked(records))
        # Of a call in doubt the record says when it was last tried, not when it was first asked for.
        self._tried_again = [(seq, key) for seq, key in asked if _is_tried_again(records[key])]
        self._left = [one for one in asked if not _is_tried_again(records[one[1]])]
        self._at = 0
        self._asked: asyncio.Future[None] | None = None

    def is_due(self, call: Call | None, prefix: str | None) -> bool:
        """Whether ``call``, of the scope ``prefix``, may be answered; one that has not ended comes after all of them.

        Calls of one scope never wait for each other: the program orders them.
        """
        return self._held_by(call, prefix) is _Wait.NOTHING

    async def until_due(self, call: Call | None, prefix: str | None) -> None:
        """Return once it is."""
        quiet, seen = 0, len(self._read)
        while (wait := self._held_by(call, prefix)) is not _Wait.NOTHING and quiet <= _QUIET_ROUNDS:
            if wait is _Wait.PERHAPS:
                await asyncio.sleep(0)
                quiet, seen = (quiet + 1 if seen == len(self._read) else 0), len(self._read)
                continue
            self._asked = self._asked or asyncio.get_running_loop().create_future()
            if not (await asyncio.wait({self._asked}, timeout=_PATIENCE_S))[0]:
                self.give_up()

    def _held_by(self, call: Call | None, prefix: str | None) -> _Wait:
        before = call.seq if call is not None and call.status in _OVER else inf
        left, read = self._left, self._read
        while self._at < len(left) and left[self._at][1] in read:
            self._at += 1
        for at in range(self._at, len(left)):
            seq, key = left[at]
            if seq >= before:
                break
            if key not in read and parent_scope(key) != prefix:
                return _Wait.SURELY
        others = [seq for seq, key in self._tried_again if key not in read and parent_scope(key) != prefix]
        if not others:
            return _Wait.NOTHING
        return _Wait.SURELY if others[0] < before else _Wait.PERHAPS

    def look_again(self) -> None:
        """Something was asked for: whoever waits looks whether it was that."""
        if self._asked is not None:
            self._asked.set_result(None)
            self._asked = None

    def give_up(self) -> None:
        """From here on everything is due."""
        self._left, self._tried_again = [], []
        self.look_again()


def _to_be_asked(records: Mapping[str, Call]) -> Iterator[tuple[int, str]]:
    """(seq, key) of what code that is as it was asks for again; nothing where all of it stands in one order."""
    if any(BRANCH in key for key in records):
        for key, call in records.items():
            if call.position and _is_asked_again(records, key):
                yield call.seq, key


def _is_tried_again(call: Call) -> bool:
    return call.attempt > 1 and call.status not in _OVER


def _is_asked_again(records: Mapping[str, Call], key: str) -> bool:
    """Whether each body that it stands in runs again, as it ran."""
    while key := parent_scope(key)[:-1]:
        around = records.get(key)
        if around is not None and (
            around.kind not in _ASKS_AGAIN or around.status in _OVER or around.attempt > 1 or around.error is not None
        ):
            return False
    return True
