"""A process for rehearsals: it answers from the records of a history, and can do nothing else.

Where the history has no answer the code is parked: nothing is run for it, and it never goes on. So concurrent branches
each come as far as their records do. No journal, no node, no clock to wait by, no body, no child, no connector.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.replay.conduct import Detail, RunOptions
from seekpoint.producers.durable.replay.history_matcher import CallPlace, HistoryMatcher
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.durable.replay.scopes import Scope
from seekpoint.producers.durable.replay.writes import Writes
from seekpoint.producers.durable.waits.shared_values import ProcessShared, Versioned
from seekpoint.producers.process import Acknowledged, Process
from seekpoint.producers.writer.clocks import VirtualClock
from seekpoint.producers.writer.handle import Cause
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_budget import Budget
    from seekpoint.schemas.state.state import State

__all__ = ["HistoryExhausted", "ReplaySession", "WaitingForInput"]

_OVER = frozenset({"succeeded", "failed"})


class HistoryExhausted(BaseException):
    """A call that the history has no answer for. Never seen by an agent's code."""

    def __init__(self, key: str, kind: str, status: str | None) -> None:
        super().__init__(key)
        self.key = key
        self.kind = kind
        self.status = status
        """What is known of it: started, pending, …; None: it was never begun."""


class WaitingForInput:
    """A call that never ends. Awaited or asked for its result, it waits until the rehearsal is over."""

    def __init__(
        self, end: HistoryExhausted, wait: Callable[[HistoryExhausted], Coroutine[Any, Any, Any]], child_id: str
    ) -> None:
        self.key = end.key
        self.child_id = child_id
        self._end, self._wait = end, wait

    def result(self) -> Coroutine[Any, Any, Any]:
        """Never."""
        return self._wait(self._end)


class ReplayMatcher(HistoryMatcher):
    """A desk that gives a place only to a call that is answered."""

    def __init__(
        self, run: RecordedRun, task: asyncio.Task[object] | None, on_call: Callable[[CallPlace], object]
    ) -> None:
        super().__init__(run.process_id, run.records, task=task, ordered=run.state.lineage.parent_id is None)
        self.answered = 0
        """How many calls were."""
        self.asked = 0
        """How many were made, answered or not: as long as it grows, the code goes on."""
        self.is_closed = False
        self._run = run
        self._check_call = on_call

    def _placed(self, scope: Scope, kind: str, suffix: str, digest: str) -> CallPlace:
        if self.is_closed:
            raise asyncio.CancelledError("the rehearsal is over")
        self.asked += 1
        place = super()._placed(scope, kind, suffix, digest)
        record = place.record
        if record is None or record.status not in _OVER:
            self._check_call(place)  # a process that was asked to stop is told so here
            raise HistoryExhausted(place.key, kind, None if record is None else record.status)
        self.answered += 1
        return place

    def patched(self, change: str, marked: Any) -> tuple[bool, str | None]:
        """What is over ran without a change that it has no marker of."""
        answer, mark = super().patched(change, marked)
        if mark is not None and self._run.is_over(self.turn):
            self._patches[change] = answer = False
        return answer, None


class ReplayWrites(Writes):
    """Content as it was, to the end of the history."""

    def begin_turn(self, number: int) -> None:
        """The frame of a turn is what the writes before it made."""

    def _settle(self) -> None:
        if not self._left:
            self.view = None


def _parking(ask: Callable[..., Any]) -> Callable[..., Any]:
    """``ask``, whose coroutine never ends where the history has no answer."""

    @wraps(ask)
    def asked(self: ReplaySession, *arguments: Any, **options: Any) -> Any:
        try:
            found = ask(self, *arguments, **options)
        except HistoryExhausted as end:
            return self.parked(end, ask.__name__, arguments)
        return self.watched(found) if may_park_later else found

    may_park_later = inspect.iscoroutinefunction(ask)
    return asked


class ReplaySession(Process):
    """See above."""

    def __init__(self, run: RecordedRun, agent: Agent, limits: Limits, detail: Detail) -> None:
        self._run = run
        self._state = run.starting_state()
        self._limits = limits
        self._over = False
        self._made: list[Coroutine[Any, Any, Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.ends: list[HistoryExhausted] = []
        """The calls that are parked, in the order of the program."""
        self.conduct = RunOptions(agent=agent, detail=detail)
        self.task = asyncio.current_task()
        self.node: Any = ReplayNode(run)
        self._handle: Any = SimpleNamespace(mail=[], error=None, mail_changed=asyncio.Event(), check_open=lambda: None)
        self._cause = Cause()
        self._confirmer: Any = None

    # --- what it looks like
    @property
    def process_id(self) -> str:
        """The process's name."""
        return self._run.process_id

    @property
    def state(self) -> State:
        """The content as it was when the code came here."""
        kept, writes = self._kept, self._writes
        view = kept.view if kept is not None else writes.view if writes is not None else None
        return self._state if view is None else view.state(self._state)

    @property
    def written(self) -> State:
        """As of the end of the history, with every call of it."""
        return self._state

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        return self._limits

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The history's newest."""
        return self._state.lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The history's newest."""
        return self._state.budget

    @property
    def is_open(self) -> bool:
        """Until the rehearsal is over."""
        return not self._over

    def check(self) -> None:
        """Nobody fences a rehearsal."""

    def times_forgotten(self, key: str) -> int:
        """How often a rewind forgot the call ``key``."""
        return self._state.forgotten.get(key, 0)

    # --- its memory
    def _new_desk(self) -> HistoryMatcher:
        return ReplayMatcher(self._run, self.task, self.cancelling.check_call)

    def begin_replay(self) -> None:
        """From here on the agent's code runs."""
        super().begin_replay()
        self._writes = ReplayWrites(self.desk, self._state, self._limits, self.append, self.acknowledged, self.in_order)

    @_parking
    def write(self, body: Any) -> Coroutine[Any, Any, Acknowledged]:
        """A content write, made again."""
        return super().write(body)

    # --- what it cannot do
    async def append(self, body: b.Body) -> Acknowledged:
        """Nothing is appended."""
        raise HistoryExhausted(body.KIND, "entry", None)

    def send(self, body: b.Body) -> int:
        """Nothing is sent: what the history has of it, it has."""
        return self._state.seq

    async def acknowledged_now(self) -> Acknowledged:
        """What a change that is kept back is answered with."""
        return Acknowledged(self._state.seq, self._state.offset)

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """The end of a turn, which needs no entry here."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(self._state.offset)
        return done

    async def confirm(self) -> None:
        """What a history has is confirmed."""

    async def checkpoint(self, *, timeout_s: float = 30.0) -> int:
        """None is asked for."""
        return self._state.offset

    async def compensate(self) -> None:
        """What is owed stays owed."""
        if self._state.obligations:
            await self.wait(self._unkept("compensate", "effect"))

    async def release(self, reason: str | None = None) -> None:
        """Not by an agent."""
        raise Refused("an agent does not release its process", process_id=self.process_id)

    def let_go(self) -> None:
        """There is nothing to let go."""

    def shared(self, name: str) -> ProcessShared:
        """A shared value, as it was seen."""
        return _RehearsalShared(self, self.node.shared(name))

    def _unkept(self, asked: str, kind: str) -> HistoryExhausted:
        """The end of the history at something that no run remembers."""
        turn = self.desk.turn
        return HistoryExhausted(f"{turn}/{asked}" if turn else asked, kind, None)

    # --- parking
    def parked(self, end: HistoryExhausted, asked: str, arguments: tuple[Any, ...]) -> Any:
        """What a call is answered with that has no answer."""
        if asked == "spawn":
            return WaitingForInput(end, self.wait, str(arguments[1]) if len(arguments) > 1 else "")
        self.ends.append(end)
        return self._tracked(self.wait(end))

    async def wait(self, end: HistoryExhausted) -> Any:
        """Never returns: cancelled when the rehearsal is over, or by the code itself."""
        if self._over:
            raise asyncio.CancelledError("the rehearsal is over")
        if end not in self.ends:
            self.ends.append(end)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._tasks.discard(task)
            self.ends.remove(end)

    def watched(self, found: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """``found``, parked where it comes to the end of the history by itself."""
        return self._tracked(self._watched(found))

    async def _watched(self, found: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await found
        except HistoryExhausted as end:
            return await self.wait(end)

    def _tracked(self, made: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        self._made.append(made)
        return made

    @property
    def is_parked(self) -> bool:
        """Whether some of the code waits for what the history does not have."""
        return bool(self._tasks)

    async def end(self) -> None:
        """Cancel what is parked: nothing of the code goes on."""
        self._over = True
        if isinstance(self._desk, ReplayMatcher):
            self._desk.is_closed = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(BaseException):
                await task
        for made in self._made:
            made.close()


for _mixin in Process.__mro__:
    if _mixin.__name__.endswith("Calls"):
        for _name, _ask in vars(_mixin).items():
            if inspect.isfunction(_ask) and not _name.startswith("_") and _name not in vars(ReplaySession):
                setattr(ReplaySession, _name, _parking(_ask))


class _RehearsalShared(ProcessShared):
    """A shared value of which only the record is known."""

    _process: ReplaySession

    def get(self) -> Coroutine[Any, Any, Versioned]:
        """As it was seen."""
        try:
            return super().get()
        except HistoryExhausted as end:
            return self._parked(end)

    def set(self, value: Any, *, expected_version: int | None = None) -> Coroutine[Any, Any, int]:
        """As it was set."""
        try:
            return super().set(value, expected_version=expected_version)
        except HistoryExhausted as end:
            return self._parked(end)

    async def watch(self, *, after: int = 0) -> AsyncIterator[Versioned]:
        """As far as it was watched."""
        try:
            async for found in super().watch(after=after):
                yield found
        except HistoryExhausted as end:
            await self._process.wait(end)

    def _parked(self, end: HistoryExhausted) -> Coroutine[Any, Any, Any]:
        parked: Coroutine[Any, Any, Any] = self._process.parked(end, "shared", ())
        return parked


class ReplayNode:
    """What an agent's code may ask of the node it runs on: nothing that does anything."""

    prices = None
    settings = Settings()
    """They hold no secret: the history's own texts are scrubbed already."""

    def __init__(self, run: RecordedRun) -> None:
        self.clock = VirtualClock()
        self._run = run

    def shared(self, name: str) -> Any:
        """A shared value, by name."""
        return SimpleNamespace(name=name)

    async def entries(self, process_id: str, **which: Any) -> AsyncIterator[Logged]:
        """The history itself: what a changed prompt is compared with."""
        for entry in self._run.entries:
            yield SimpleNamespace(entry=entry)  # type: ignore[misc]  # what is read of it

    def __getattr__(self, name: str) -> Any:
        raise Refused(
            f"a replay check has no node: node.{name} would do something", process_id=self._run.process_id,
            hint="reach the world through the process: process.step(...), process.effect(...)",
        )  # fmt: skip
