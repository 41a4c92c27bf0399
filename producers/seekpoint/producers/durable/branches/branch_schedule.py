"""The schedule of explicit branches: it gives their code one answer at a time, in the order of the log.

A branch is at rest while it waits for a call of the process or for other branches. The schedule hands out the next
answer only when every branch is at rest: the answer whose last entry has the lowest seq. So what the code does follows
from the order of the answers in the log, and from nothing else. A replay hands out the recorded answers in the same
order, and begins no work before it has handed out the last one: the answer that cancelled a branch cancels it again,
and no work is done twice for a branch that was cancelled.

The rule is that of a Temporal workflow (one event of the history, then all code runs until it blocks), without an event
loop of its own. So branches have to wait for calls of the process and for each other only. A branch that waits for
anything else holds up the others; after ``PATIENCE_S`` their calls raise ``Refused``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.schemas.state.calls import Call

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""How long branches wait for one that waits for anything but a call of the process or a branch."""
_OVER = frozenset({"succeeded", "failed"})


class BranchTask:
    """A task whose calls a schedule answers: that of a branch, or of the code that started the first branch."""

    __slots__ = ("schedule", "task")

    def __init__(self, schedule: BranchSchedule, task: asyncio.Task[Any] | None) -> None:
        self.schedule = schedule
        self.task = task


class _WaitingCall(NamedTuple):
    """A call that waits for its turn; the lowest ``seq`` is next, of equal ones the one that was made first."""

    seq: int
    number: int
    task: BranchTask
    turn: asyncio.Future[None]


class BranchSchedule:
    """The schedule of the branches that one piece of code started: the main code, or the body of a call.

    ``answers`` are (seq, key) of the recorded answers, in log order; ``asked`` has the keys that this run has asked
    for, ``calls`` returns the remembered calls as of now, and ``diverge`` the error for a recorded answer that no
    branch asks for. ``may_refuse``: whether calls may be refused without a record (a budget, a request to stop).
    """

    def __init__(
        self,
        answers: deque[tuple[int, str]],
        asked: Collection[str],
        calls: Callable[[], Mapping[str, Call]],
        diverge: Callable[[str], Exception],
        may_refuse: Callable[[], bool],
    ) -> None:
        self._answers = answers
        self._asked = asked
        self._calls = calls
        self._diverge = diverge
        self._may_refuse = may_refuse
        self._running: set[BranchTask] = set()
        self._recorded: list[_WaitingCall] = []
        """Calls that the history has an answer for."""
        self._to_begin: deque[_WaitingCall] = deque()
        """Calls that begin once the recorded answers are handed out."""
        self._under_way: dict[int, tuple[str, Call | None, BranchTask]] = {}
        """Calls that are carried out, with what was remembered of them before. Two branches may await one child."""
        self._ended: list[_WaitingCall] = []
        """Calls that were carried out."""
        self._number = count()
        self._progress = 0
        self._watch: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Stop to watch: no branch is left."""
        if self._watch is not None:
            self._watch.cancel()

    @property
    def is_at_rest(self) -> bool:
        """Whether every branch waits, or has ended."""
        return not self._running

    # --- tasks
    def start(self, task: BranchTask) -> None:
        """Count ``task`` as running: its code goes on."""
        self._running.add(task)

    def rest(self, task: BranchTask) -> None:
        """Count ``task`` as resting: it waits, or has ended."""
        self._running.discard(task)
        self._progress += 1
        self._hand_out()

    async def rest_until(self, task: BranchTask, over: asyncio.Future[None]) -> None:
        """Let ``task`` rest until ``over`` is done. Who sets it calls ``start`` with ``task`` first."""
        self.rest(task)
        try:
            await over
        finally:
            self.start(task)

    # --- calls
    async def answer(
        self, task: BranchTask, key: str, record: Call | None, begin: Callable[[], None],
        answer: Callable[..., Coroutine[Any, Any, T]], given: tuple[Any, ...],
    ) -> T:  # fmt: skip
        """Return ``answer(*given)``, of the call ``key``, when it is its turn.

        ``begin`` is called before a call is carried out, and may refuse that. Raises ``Refused`` in a task that is not
        ``task``'s.
        """
        current = asyncio.current_task()
        if current is None or current is not task.task:
            raise Refused(
                "a task that is not a branch waits for a call while branches run", key=key,
                hint="start it with process.gather, process.race or process.branch; a time-out is timeout= of the call",
            )  # fmt: skip
        if record is not None and record.status in _OVER:
            if record.position:
                await self._turn(task, record.seq, partial(heappush, self._recorded))
            return await answer(*given)
        if self._answers:
            await self._turn(task, 0, self._to_begin.append)
        begin()
        return await self._carry_out(task, current, key, record, answer(*given))

    async def _carry_out(
        self, task: BranchTask, current: asyncio.Task[Any], key: str, record: Call | None, work: Coroutine[Any, Any, T]
    ) -> T:
        cancelled, failure, found, number = current.cancelling(), None, None, next(self._number)
        self._under_way[number] = key, record, task
        resting = asyncio.get_running_loop().call_soon(self.rest, task)  # once the work waits for the first time
        try:
            found = await work
        except Exception as exc:
            failure = exc
        finally:
            resting.cancel()
            self.start(task)
            del self._under_way[number]
        if current.cancelling() > cancelled:  # a replay cancels the branch before it hands out what the body made of it
            raise asyncio.CancelledError from failure
        await self._turn(task, _ended_at(self._calls(), key, record), partial(heappush, self._ended))
        if failure is not None:
            raise failure
        return found  # type: ignore[return-value]

    # --- turns
    async def _turn(self, task: BranchTask, seq: int, enqueue: Callable[[_WaitingCall], object]) -> None:
        waiter = _WaitingCall(seq, next(self._number), task, asyncio.get_running_loop().create_future())
        enqueue(waiter)
        self.rest(task)
        try:
            await waiter.turn
        finally:
            self.start(task)

    def _hand_out(self) -> None:
        """Give the next turn, if every branch is at rest."""
        while not self._running and (waiters := self._next()):
            for waiter in waiters:
                self.start(waiter.task)
                waiter.turn.set_result(None)
        if self._running and self._watch is None and (self._recorded or self._to_begin or self._ended):
            self._watch = asyncio.get_running_loop().call_later(PATIENCE_S / 2, self._look, self._progress, 1)

    def _next(self) -> list[_WaitingCall]:
        _drop_cancelled(self._recorded)
        _drop_cancelled(self._ended)
        if self._ended and not self._ended[0].seq:  # refused, without a record
            return [heappop(self._ended)]
        while self._answers:
            seq, key = self._answers[0]
            if self._recorded and self._recorded[0].seq <= seq:
                return [heappop(self._recorded)]
            if key not in self._asked:
                if self._may_refuse() and (waiter := self._first_to_begin()) is not None:
                    return [waiter]  # its refusal is not recorded, and the code went on from there
                return self._fail(partial(self._diverge, key))
            self._answers.popleft()  # nobody waits for it: the call was cancelled, or its result is asked for later
        if self._recorded:
            return [heappop(self._recorded)]
        if self._to_begin:
            waiters = [one for one in self._to_begin if not one.turn.done()]
            self._to_begin.clear()
            return waiters or self._next()
        return [heappop(self._ended)] if self._ended and not self._is_earlier_one_to_come(self._ended[0].seq) else []

    def _is_earlier_one_to_come(self, seq: int) -> bool:
        """Whether an entry below ``seq`` has ended a call that has not returned yet."""
        calls = self._calls()
        return any(0 < _ended_at(calls, key, before) < seq for key, before, _ in self._under_way.values())

    def _first_to_begin(self) -> _WaitingCall | None:
        while self._to_begin:
            waiter = self._to_begin.popleft()
            if not waiter.turn.done():
                return waiter
        return None

    def _fail(self, error: Callable[[], Exception]) -> list[_WaitingCall]:
        """Raise ``error`` in every call that waits."""
        waiters = [one for one in (*self._recorded, *self._to_begin, *self._ended) if not one.turn.done()]
        self._recorded, self._ended = [], []
        self._to_begin.clear()
        for waiter in waiters:
            self.start(waiter.task)
            waiter.turn.set_exception(error())
        return []

    def _look(self, progress: int, looks: int) -> None:
        """Refuse what waits if nothing went on since the last look but one: the machine may have stood still."""
        self._watch = None
        in_body = any(task in self._running for _, _, task in self._under_way.values())  # cancelled, and tidying up
        if not self._running or progress != self._progress or in_body:
            self._hand_out()
        elif looks:
            self._watch = asyncio.get_running_loop().call_later(PATIENCE_S / 2, self._look, progress, looks - 1)
        else:
            self._fail(
                lambda: Refused(
                    f"a branch has waited for {PATIENCE_S:g} s for something that is not a call of its process",
                    hint="in a branch, wait for calls of the process and for branches only; limit= bounds how many run",
                )
            )


def _drop_cancelled(waiters: list[_WaitingCall]) -> None:
    while waiters and waiters[0].turn.done():
        heappop(waiters)


def _ended_at(calls: Mapping[str, Call], key: str, before: Call | None) -> int:
    """Return the seq of the entry that ended the call ``key``; 0 if there is none since ``before``."""
    call = calls.get(key)
    return 0 if call is None or call is before or call.status not in _OVER else call.seq
