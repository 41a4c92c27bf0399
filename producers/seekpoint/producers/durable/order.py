"""The order of answers: a recorded call is answered once what the log has before its end was asked for as well.

What is remembered is answered at once, and code that runs beside it may have something of its own to do between two
calls. Answered earlier than it was, a branch would cancel another one, or end the run, before that one came to what it
had asked. Nobody is waited for who asks for nothing: then the code is another one, and the end of the run says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING

from seekpoint.producers.durable.scopes import BRANCH, parent_scope

if TYPE_CHECKING:
    from seekpoint.schemas.calls import Call

__all__ = ["Order"]

_PATIENCE_S = 5.0
"""How long nobody has to ask for anything before nobody is waited for any more."""
_OVER = frozenset({"succeeded", "failed"})
_ASKS_AGAIN = frozenset({"step", "decision"})


class Order:
    """What ``records`` have that a run will ask for, in the order of the log. ``read``: what it has asked for."""

    def __init__(self, records: Mapping[str, Call], read: Collection[str]) -> None:
        self._read = read
        self._left = sorted(_to_be_asked(records))
        self._at = 0
        self._asked: asyncio.Future[None] | None = None

    def is_due(self, call: Call | None, prefix: str | None) -> bool:
        """Whether ``call``, of the scope ``prefix``, may be answered; one that has not ended comes after all of them.

        Calls of one scope never wait for each other: the program orders them.
        """
        before = call.seq if call is not None and call.status in _OVER else inf
        left, read = self._left, self._read
        while self._at < len(left) and left[self._at][1] in read:
            self._at += 1
        for at in range(self._at, len(left)):
            seq, key = left[at]
            if seq >= before:
                return True
            if key not in read and parent_scope(key) != prefix:
                return False
        return True

    async def until_due(self, call: Call | None, prefix: str | None) -> None:
        """Return once it is."""
        while not self.is_due(call, prefix):
            self._asked = self._asked or asyncio.get_running_loop().create_future()
            if not (await asyncio.wait({self._asked}, timeout=_PATIENCE_S))[0]:
                self.give_up()

    def look_again(self) -> None:
        """Something was asked for: whoever waits looks whether it was that."""
        if self._asked is not None:
            self._asked.set_result(None)
            self._asked = None

    def give_up(self) -> None:
        """From here on everything is due."""
        self._left = []
        self.look_again()


def _to_be_asked(records: Mapping[str, Call]) -> Iterator[tuple[int, str]]:
    """(seq, key) of what code that is as it was asks for again; nothing where all of it stands in one order.

    The seq of a call in doubt is its newest attempt's: it was asked for before, if not before what stands before it.
    """
    if not any(BRANCH in key for key in records):
        return
    asked = [(parent_scope(key), call.position, call, key) for key, call in records.items() if call.position]
    scope, seq = "", 0
    for prefix, _, call, key in sorted(asked, key=itemgetter(0, 1)):
        is_tried_again = call.attempt > 1 and call.status not in _OVER
        seq = (seq if prefix == scope else 0) if is_tried_again else call.seq
        scope = prefix
        if _is_asked_again(records, key):
            yield seq, key


def _is_asked_again(records: Mapping[str, Call], key: str) -> bool:
    """Whether each body that it stands in runs again, as it ran."""
    while key := parent_scope(key)[:-1]:
        around = records.get(key)
        if around is not None and (
            around.kind not in _ASKS_AGAIN or around.status in _OVER or around.attempt > 1 or around.error is not None
        ):
            return False
    return True
