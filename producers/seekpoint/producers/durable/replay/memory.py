"""The side of a process that remembers what its code asked: the desk, an agent's writes, the markers of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from seekpoint.producers.durable.budgets.budget_calls import BudgetCalls
from seekpoint.producers.durable.decisions.decision_calls import DecisionCalls
from seekpoint.producers.durable.replay.completion_order import QUIET_ROUNDS
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, RunOptions
from seekpoint.producers.durable.replay.differences import changed
from seekpoint.producers.durable.replay.history_matcher import CallPlace, Difference, HistoryMatcher
from seekpoint.producers.durable.replay.replayed_content import ReplayedContent
from seekpoint.producers.durable.replay.write_buffer import WriteBuffer
from seekpoint.producers.durable.replay.writes import Writes
from seekpoint.producers.durable.steps.step_calls import StepCalls
from seekpoint.producers.durable.steps.turn_calls import TurnCalls
from seekpoint.producers.durable.waits.waits import WaitCalls
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.process import Acknowledged, Process
    from seekpoint.producers.writer.clocks import Clock

__all__ = ["Memory"]

T = TypeVar("T")


class Memory(StepCalls, DecisionCalls, BudgetCalls, WaitCalls, TurnCalls):
    """What a process remembers of the code that runs as it."""

    conduct: RunOptions
    _desk: HistoryMatcher | None = None
    _writes: Writes | None = None
    _kept: WriteBuffer | None = None

    @property
    def _process(self) -> Process:
        return self  # type: ignore[return-value]  # a mixin of it

    @property
    def clock(self) -> Clock:
        """The clock the process waits by: the node's."""
        clock: Clock = self._process.node.clock
        return clock

    @property
    def desk(self) -> HistoryMatcher:
        """Where calls get their places; made at the first one."""
        if self._desk is None:
            self._desk = self._new_desk()
        return self._desk

    def _new_desk(self) -> HistoryMatcher:
        process = self._process
        return HistoryMatcher(
            process.process_id, process.written.calls.copy(), strict=self.conduct.replay is ReplayMode.STRICT,
            ordered=process.written.lineage.parent_id is None,  # a fork counts its seqs anew
            task=process.task, on_difference=self._note, on_call=self.cancelling.check_call,
        )  # fmt: skip

    def hand_over(self, task: asyncio.Task[Any] | None) -> None:
        """From here on the calls of ``task`` are those of the main code."""
        self._process.task = self.desk.main.task = task

    def _note(self, difference: Difference) -> None:
        key, position, kind, expected, actual, _ = difference
        self._process.send(b.Diverged(key, position, kind, dump(expected), dump(actual)))

    def in_order(
        self, place: CallPlace, answer: Callable[..., Coroutine[Any, Any, T]], *given: Any
    ) -> Coroutine[Any, Any, T]:
        """``answer(*given)``, of the call at ``place``, held back until what came before it was asked for too."""
        is_free = self.desk.order.is_free(place.scope.prefix)
        return answer(*given) if is_free else self._held_back(place, answer, given)

    async def _held_back(
        self, place: CallPlace, answer: Callable[..., Coroutine[Any, Any, T]], given: tuple[Any, ...]
    ) -> T:
        try:
            found = await answer(*given)
        except Exception:
            await self.desk.order.until_due(place.record, place.scope.prefix)
            raise
        await self.desk.order.until_due(place.record, place.scope.prefix)
        return found

    async def let_tasks_ask(self, unread: Callable[[], Collection[str]]) -> None:
        """Return once tasks that have only begun have asked for what they can: answered at once, the main code is here
        before they had a turn of the event loop."""
        left, quiet = len(unread()) if self.desk.strict else 0, 0
        while left and quiet < QUIET_ROUNDS:
            await asyncio.sleep(0)
            now = len(unread())
            left, quiet = now, quiet + 1 if now == left else 0

    async def check_read(self, prefix: str = "") -> None:
        """Raise ``ReplayDivergence`` (``length``) if something remembered under ``prefix`` was never asked for."""
        await self.let_tasks_ask(lambda: self.desk.unread(prefix))
        self.desk.check_read(prefix)

    def idempotency_key(self, key: str) -> str:
        """What the outside world is handed for the call ``key``: the same for every attempt and every owner."""
        times = self._process.times_forgotten(key)
        return f"{self._process.process_id}/{key}{f'~{times}' if times else ''}"

    def patched(self, change: str) -> bool:
        """Whether changed code may run here: ``if process.patched("new-prompt"): ... else: the old way``.

        True where the history was made with the change, or nothing of it is left; then it stays so for ever. False
        while what was made without it is replayed, and to the end of the run (or of the turn), which is one program.
        """
        answer, mark = self.desk.patched(change, self._process.written.patches)
        if mark is not None:
            self._process.send(b.PatchMarked(mark))
        return answer

    # --- what an agent writes
    def begin_replay(self) -> None:
        """From here on an agent's code runs: its content writes are calls, and it sees the content as it was then."""
        process = self._process
        self._desk = self._new_desk()
        live = process.written
        self._writes = Writes(self._desk, live, process.limits, process.append, process.acknowledged, self.in_order)
        if self.conduct.detail is not Detail.FULL:
            self._kept = WriteBuffer(ReplayedContent(live, live.start_frame, process.limits), self.conduct.detail)

    def end_replay(self) -> None:
        """The agent's code has ended: what is written now is written by others. What it left is made again by it."""
        self._writes = self._kept = None

    def begin_anew(self) -> None:
        """The code is over: what is asked from here on stands in no order of its, and did not diverge with it."""
        self._desk = None

    def begin_turn(self, number: int) -> None:
        """From here on turn ``number`` is under way."""
        live, resumed = self._process.written, not self.desk.turn
        self.desk.begin_turn(number)
        if self._writes is not None:
            self._writes.begin_turn(number)
            if self._kept is not None and resumed and live.turn_frame is not None:
                self._kept = WriteBuffer(
                    ReplayedContent(live, live.turn_frame, self._process.limits), self.conduct.detail
                )

    def write(self, body: Any) -> Coroutine[Any, Any, Acknowledged]:
        """Write content: by an agent's code as a call, which takes its place now; else as any entry."""
        return self._journal(body) if self.conduct.detail is Detail.FULL else self._write_kept(body)

    def _write_kept(self, body: Any) -> Coroutine[Any, Any, Acknowledged]:
        process = self._process
        if self._kept is None:
            self._kept = WriteBuffer(ReplayedContent(process.written, None, process.limits), self.conduct.detail)
        if self._writes is not None:
            self.desk.check_not_in_body()
        if self._kept.takes(body):
            self._kept.write(body)
            return process.acknowledged_now()
        batch = self._kept.batch() if isinstance(body, b.InvocationEnded) else None
        parts = [self._journal(one) for one in (batch, body) if one is not None]
        return self._in_order(parts, body)

    def _journal(self, body: Any) -> Coroutine[Any, Any, Acknowledged]:
        if self._writes is None:
            return self._process.append(body)
        try:
            return self._writes.write(body)
        except ReplayDivergence as exc:
            return changed(self._process, exc, body)

    async def _in_order(self, parts: list[Coroutine[Any, Any, Acknowledged]], body: Any) -> Acknowledged:
        for part in parts:
            done = await part
        if self._kept is not None:
            self._kept.view.write(body)
        return done

    async def flush(self) -> None:
        """Journal the content that is still kept back, as one entry."""
        batch = None if self._kept is None else self._kept.batch()
        if batch is not None:
            await self._journal(batch)
