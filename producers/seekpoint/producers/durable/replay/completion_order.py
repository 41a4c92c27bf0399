"""Release recorded answers in log order: each once the calls that the log has before its end were made again.

This is for tasks of asyncio; explicit branches have a schedule (``durable.branches``). A recorded answer costs no time,
but other tasks may do something of their own between two calls. If an answer came too early, its task could cancel
another task, or end the run, before that one had made its recorded calls. A task that makes no calls is not waited for:
the code has changed then, and the end of the run raises ``ReplayDivergence``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from seekpoint.producers.durable.replay.record_index import OVER, made_again
from seekpoint.producers.durable.replay.scopes import BRANCH, is_explicit, parent_scope

if TYPE_CHECKING:
    from seekpoint.schemas.state.calls import Call

_Held: TypeAlias = "tuple[float, int, str | None, asyncio.Future[None]]"
"""A delayed answer: the seq of its end, the order of arrival, its scope, and the future that releases it."""

_PATIENCE_S = 5.0
"""After this many seconds without a call, every answer is released."""
QUIET_ROUNDS = 10
"""Rounds of the event loop without a call, after which every task that could make a call has made it."""
_ROUNDS_AFTER_ITS_NEXT = 1
"""The rounds after the answered task has made its next call: fewer, so that hundreds of tasks are fast."""


class CompletionOrder:
    """The calls of ``records`` that a run will make again, in log order. ``read``: those that it has made."""

    def __init__(self, records: Mapping[str, Call], read: Collection[str]) -> None:
        self._read = read
        self._left: dict[str, list[tuple[int, str]]] = {}
        for seq, key in sorted(_to_be_asked(records), reverse=True):
            self._left.setdefault(parent_scope(key), []).append((seq, key))
        self._first = sorted((left[-1][0], scope) for scope, left in self._left.items())
        self._held: list[_Held] = []
        self._count = count()
        self._looks: asyncio.Handle | None = None
        self._seen, self._quiet = 0, 0
        self._answered: str | None = None
        """The scope that got the last answer, until it makes its next call."""

    @property
    def has_tasks(self) -> bool:
        """Whether the history has calls of tasks of asyncio that the run makes again."""
        return bool(self._left)

    @property
    def holds_answers(self) -> bool:
        """Whether a recorded answer waits for calls that come before it in the log."""
        return any(not one[-1].done() for one in self._held)

    def is_free(self, prefix: str | None) -> bool:
        """Whether a call of the scope ``prefix`` is answered at once: nothing before it or behind it is left."""
        return not self._held and (not self._first or self.is_due(inf, prefix))

    def is_due(self, ended_at: float, prefix: str | None) -> bool:
        """Whether a call of the scope ``prefix`` that ended at ``ended_at`` may be answered.

        Calls of one scope never wait for each other: the program orders them.
        """
        return self._first_of_others(prefix) >= ended_at

    async def until_due(self, call: Call | None, prefix: str | None) -> None:
        """Return when the call is due, what was due earlier is answered, and its scope has made its next call."""
        if not self.is_free(prefix):
            answered = asyncio.get_running_loop().create_future()
            heappush(self._held, (_ended_at(call), next(self._count), prefix, answered))
            if prefix is not None and prefix == self._answered:
                self._answered = None
                self._seen, self._quiet = len(self._read), QUIET_ROUNDS - _ROUNDS_AFTER_ITS_NEXT
            self._look_soon()
            await answered

    def _first_of_others(self, prefix: str | None) -> float:
        """Return the seq of the first call that was not made yet, in any other scope."""
        mine: list[tuple[int, str]] = []
        while self._first:
            seq, scope = self._first[0]
            left = self._left[scope]
            while left and left[-1][1] in self._read:
                left.pop()
            if not left:
                heappop(self._first)
            elif left[-1][0] != seq:
                heapreplace(self._first, (left[-1][0], scope))
            elif scope == prefix:
                mine.append(heappop(self._first))
            else:
                break
        found = self._first[0][0] if self._first else inf
        for one in mine:
            heappush(self._first, one)
        return found

    def _look_soon(self) -> None:
        if self._looks is None:
            self._looks = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Release the next answer after quiet rounds. Wait a limited time for code that has to make a call before."""
        loop, self._looks = asyncio.get_running_loop(), None
        self._quiet = self._quiet + 1 if self._seen == len(self._read) else 0
        self._seen = len(self._read)
        if self._quiet > QUIET_ROUNDS:
            if not self._answer_next():
                if self._held:
                    self._looks = loop.call_later(_PATIENCE_S, self._lose_patience)
                return
            self._quiet = 0
        self._look_soon()

    def _answer_next(self) -> bool:
        while self._held and self._held[0][-1].done():  # cancelled
            heappop(self._held)
        if self._held and self.is_due(self._held[0][0], self._held[0][2]):
            return self._answer(heappop(self._held))
        due = [one for one in self._held if not one[-1].done() and self.is_due(one[0], one[2])]
        if due:  # of the scope that all others wait for
            self._held.remove(first := min(due))
            heapify(self._held)
            return self._answer(first)
        return False

    def _answer(self, held: _Held) -> bool:
        self._answered = held[2]
        held[-1].set_result(None)
        return True

    def _lose_patience(self) -> None:
        self._looks = None
        if any(not one[-1].done() for one in self._held):
            self.give_up()

    def look_again(self) -> None:
        """Check again whether a delayed answer is due, because a call was made."""
        if isinstance(self._looks, asyncio.TimerHandle):
            self._looks.cancel()
            self._looks = None
            self._look_soon()

    def give_up(self) -> None:
        """Release all answers, delayed and later ones."""
        self._left, self._first = {}, []
        self.look_again()
        if self._held:
            self._look_soon()


def _ended_at(call: Call | None) -> float:
    """Return the seq at which the call ended; infinity if it has not ended."""
    return call.seq if call is not None and call.status in OVER else inf


def _to_be_asked(records: Mapping[str, Call]) -> Iterator[tuple[int, str]]:
    """Yield (seq, key) of the calls that unchanged code makes again; nothing if all stand in one order."""
    if any(BRANCH in key and not is_explicit(key) for key in records):
        for key, call in records.items():
            if call.position and not is_explicit(key) and made_again(records, key) == key:
                yield call.seq, key
