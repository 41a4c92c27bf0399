"""Make the calls of an open process durable: match them with the record, and buffer what its code writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from seekpoint.producers.durable.idempotency_keys import idempotency_key
from seekpoint.producers.durable.replay.completion_order import QUIET_ROUNDS
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode, RunOptions
from seekpoint.producers.durable.replay.history_matcher import CallPlace, Difference, HistoryMatcher
from seekpoint.producers.durable.replay.scopes import Scope
from seekpoint.producers.durable.replay.writes import Writes
from seekpoint.producers.durable.session import Acknowledged, Session
from seekpoint.producers.durable.waits.cancellation import Cancellation
from seekpoint.producers.durable.waits.waiting import Waiting
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused, ReplayDivergence
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.branch_schedule import BranchSchedule
    from seekpoint.producers.durable.effects.effect_context import EffectContext
    from seekpoint.producers.durable.replay.write_buffer import WriteBuffer
    from seekpoint.producers.durable.waits.children import Children
    from seekpoint.schemas.state.budget_sums import Budget
    from seekpoint.schemas.state.calls import Call, Frame
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_state import State

T = TypeVar("T")


class DurableProcess:
    """The state that the durable calls of one open process share, over its ``session``."""

    _matcher: HistoryMatcher | None = None
    _writes: Writes | None = None
    _buffer: WriteBuffer | None = None

    def __init__(self, session: Session, options: RunOptions) -> None:
        self.session = session
        self.options = options
        self.exit: BaseException | None = None
        """What has left a task of its code and the event loop: the run fails by it."""
        self.mail_seen: Collection[bytes] = ()
        """The mail that the code has looked at: what it leaves in the mailbox asks for no further run."""
        self.model: str | None = None
        """The model that the requests of this run name instead of their own; None: their own."""
        self.task = asyncio.current_task()
        """The task that opened it: its calls are those of the main code."""
        # Bound once: every call of a process uses several of them.
        self.process_id = session.process_id
        self.limits = session.limits
        self.settings = session.settings
        self.clock = session.clock
        self.tracer = session.tracer
        self.append = session.append
        self.send = session.send
        self.sent = session.sent
        self.hold = session.hold
        self.drop_held = session.drop_held
        self.body_thread = session.body_thread

    # --- state
    @property
    def state(self) -> State:
        """Return the state for the agent's code: during a replay with the content as of that point."""
        buffer, writes = self._buffer, self._writes
        view = buffer.view if buffer is not None else writes.view if writes is not None else None
        written = self.session.written
        return written if view is None else view.state(written)

    @property
    def written(self) -> State:
        """Return the state as of the newest acknowledged entry, also during a replay."""
        return self.session.written

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """Return the lifecycle once everything sent so far is in the log."""
        return self.session.ahead_lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """Return the budget once everything sent so far is in the log; None if it limits nothing."""
        budget = self.session.ahead_budget
        return budget if budget is not None and budget.has_limits else None

    @property
    def is_running_code(self) -> bool:
        """Whether an agent's code runs now: its content writes are calls."""
        return self._writes is not None

    # --- parts
    @cached_property
    def waiting(self) -> Waiting:
        """The waits of this process."""
        return Waiting(self.session, self.cancellation)

    @cached_property
    def cancellation(self) -> Cancellation:
        """The request to cancel this process."""
        return Cancellation(self.session)

    @cached_property
    def children(self) -> Children:
        """The children that this run has spawned."""
        from seekpoint.producers.durable.waits.children import Children

        return Children(self.session, self.waiting)

    @cached_property
    def effects(self) -> EffectContext:
        """The parts that the effects of this process share."""
        from seekpoint.producers.durable.effects.effect_context import EffectContext

        return EffectContext(self.session)

    @property
    def matcher(self) -> HistoryMatcher:
        """The matcher of calls with the record; made at the first call."""
        if self._matcher is None:
            self._matcher = self._new_matcher()
        return self._matcher

    def _new_matcher(self) -> HistoryMatcher:
        written = self.session.written
        return HistoryMatcher(
            self.process_id, written.calls.copy(), strict=self.options.replay is ReplayMode.STRICT,
            seq_base=written.lineage.seq_base, task=self.task, on_difference=self._record_difference,
        )  # fmt: skip

    def set_main_task(self, task: asyncio.Task[Any] | None) -> None:
        """Treat the calls of ``task`` as those of the main code from here on; None: of any task, if one thread waits
        for each of them."""
        self.task = self.matcher.main.task = task

    def fail(self, error: BaseException) -> None:
        """End the run by ``error``, which left a task of its code; its code is cancelled, and makes no more calls."""
        self.exit = error
        if self.task is not None:
            self.matcher.close()
            self.task.cancel()

    def _record_difference(self, difference: Difference) -> None:
        key, position, kind, expected, actual, _ = difference
        self.send(b.Diverged(key, position, kind, dump(expected), dump(actual)))

    # --- calls
    def in_order(
        self, place: CallPlace, answer: Callable[..., Coroutine[Any, Any, T]], *given: Any
    ) -> Coroutine[Any, Any, T]:
        """Return ``answer(*given)`` of the call at ``place``, delayed until the recorded calls before it were made.

        A call without a recorded answer raises ``Cancelled`` once the process was asked to stop.
        """
        return self._ordered(place, self.cancellation.check_call, answer, given)

    def write_in_order(
        self, place: CallPlace, answer: Callable[..., Coroutine[Any, Any, T]], *given: Any
    ) -> Coroutine[Any, Any, T]:
        """Do the same for a content write: a process that was asked to stop may still make it."""
        return self._ordered(place, _allow, answer, given)

    def _ordered(
        self, place: CallPlace, check: Callable[[CallPlace], None], answer: Callable[..., Coroutine[Any, Any, T]],
        given: tuple[Any, ...],
    ) -> Coroutine[Any, Any, T]:  # fmt: skip
        matcher = self.matcher
        return self._answer(matcher, place, matcher.order.is_free(place.scope.prefix), check, answer, given)

    async def _answer(
        self, matcher: HistoryMatcher, place: CallPlace, is_free: bool, check: Callable[[CallPlace], None],
        answer: Callable[..., Coroutine[Any, Any, T]], given: tuple[Any, ...],
    ) -> T:  # fmt: skip
        branch = matcher.branch_task()
        if branch is not None:
            try:
                return await branch.schedule.answer(
                    branch, place.key, place.record, partial(check, place), answer, given
                )
            except asyncio.CancelledError:
                matcher.ended(place)  # a replay cancels it before its body begins again
                raise
        check(place)
        return await (answer(*given) if is_free else self._held_back(place, answer, given))

    def open_branches(self, scope: Scope) -> BranchSchedule:
        """Return the schedule of the branches that the code in ``scope`` starts."""
        from seekpoint.producers.durable.branches.branch_schedule import BranchSchedule, BranchTask

        scope.groups_open += 1
        task = scope.branch_task
        if task is None:
            matcher = self.matcher
            answers = matcher.recorded_answers(scope)
            schedule = BranchSchedule(
                answers, matcher.asked_keys, lambda: self.written.calls, matcher.nobody_asks_for, self._may_refuse
            )
            task = scope.branch_task = BranchTask(schedule, scope.task)
            schedule.start(task)
            scope.starts_branches = True
        return task.schedule

    def _may_refuse(self) -> bool:
        return self.cancellation.is_accepted or self.ahead_budget is not None

    def close_branches(self, scope: Scope) -> None:
        """End the schedule if the branches that the code in ``scope`` started were its last ones."""
        scope.groups_open -= 1
        if not scope.groups_open:
            scope.explicit_branches.clear()
        if scope.starts_branches and not scope.groups_open and scope.branch_task is not None:
            scope.branch_task.schedule.close()
            scope.branch_task = None

    def executes(self, place: CallPlace) -> bool:
        """Whether a call without a recorded answer is executed: not in a replay check."""
        return True

    async def _held_back(
        self, place: CallPlace, answer: Callable[..., Coroutine[Any, Any, T]], given: tuple[Any, ...]
    ) -> T:
        try:
            found = await answer(*given)
        except Exception:
            await self.matcher.order.until_due(place.record, place.scope.prefix)
            raise
        await self.matcher.order.until_due(place.record, place.scope.prefix)
        return found

    async def let_new_tasks_call(self, unread: Callable[[], Collection[str]]) -> None:
        """Return once new tasks have made the calls that they can. The main code may get here before the event loop has
        run them."""
        left, quiet = len(unread()) if self.matcher.strict else 0, 0
        while left and quiet < QUIET_ROUNDS:
            await asyncio.sleep(0)
            now = len(unread())
            left, quiet = now, quiet + 1 if now == left else 0

    async def check_read(self, prefix: str = "") -> None:
        """Raise ``ReplayDivergence`` (``length``) if the code did not make a recorded call under ``prefix``."""
        await self.let_new_tasks_call(lambda: self.matcher.unread(prefix))
        self.matcher.check_read(prefix)

    def idempotency_key(self, key: str, record: Call | None = None) -> str:
        """Return the idempotency key of the call ``key``: the same for every attempt and every owner."""
        return idempotency_key(self.session, key, record)

    def patched(self, change: str) -> bool:
        """Whether changed code may run here; record in the journal that it does."""
        answer, mark = self.matcher.patched(change, self.written.patches)
        if mark is not None:
            self.send(b.PatchMarked(mark))
        return answer

    # --- content
    def begin_replay(self) -> None:
        """Begin a run of an agent's code: its content writes are calls, and it reads the content as of that point."""
        self._matcher = self._new_matcher()
        live = self.written
        self.model = live.lineage.model
        self._writes = Writes(self._matcher, live, self.limits, self.append, self.write_in_order)
        if self.options.detail is not Detail.FULL:
            self._buffer = self._new_buffer(live.start_frame)

    def end_replay(self) -> None:
        """End the run of an agent's code: later writes are not calls. Buffered content is for a later run to write."""
        self._writes = self._buffer = None

    def reset_matcher(self) -> None:
        """Drop the matcher: the code has ended, and later calls do not follow its order."""
        self._matcher = None

    def reset_after_rewind(self) -> None:
        """Drop the buffered content and the matcher, as if the process was opened again."""
        self._buffer = None
        self.reset_matcher()

    def begin_turn(self, number: int) -> None:
        """Begin turn ``number``."""
        live, resumed = self.written, not self.matcher.turn
        self.matcher.begin_turn(number)
        if self._writes is not None:
            self._writes.begin_turn(number)
            if self._buffer is not None and resumed and live.turn_frame is not None:
                self._buffer = self._new_buffer(live.turn_frame)

    def write(
        self, body: Any, *, entry_id: bytes | None = None, wait: bool = True
    ) -> Coroutine[Any, Any, Acknowledged]:
        """Write content: in an agent's code as a call that takes its place now, else as any entry.

        With an ``entry_id``, unless the process has an entry with it. Without ``wait``, nobody waits for the entry.
        """
        if entry_id is not None:
            self._refuse_id()
            return self.session.append_once(body, entry_id, wait=wait)
        return self._journal(body, wait) if self.options.detail is Detail.FULL else self._write_buffered(body)

    def _refuse_id(self) -> None:
        """Raise ``Refused`` where a write is no entry of its own, or is repeated by the code that made it."""
        if self._writes is not None:
            raise Refused("an agent's writes have keys, and are written once without an entry_id",
                          process_id=self.process_id, hint="leave entry_id out")  # fmt: skip
        if self.options.detail is not Detail.FULL:
            raise Refused("writes that are journaled together have no entry of their own",
                          process_id=self.process_id, hint='open the process with detail="full"')  # fmt: skip

    def _write_buffered(self, body: Any) -> Coroutine[Any, Any, Acknowledged]:
        if self._buffer is None:
            self._buffer = self._new_buffer(None)
        if self._writes is not None:
            self.matcher.check_not_in_body()
        if self._buffer.takes(body):
            self._buffer.write(body)
            return self._newest()
        batch = self._buffer.batch() if isinstance(body, b.InvocationEnded) else None
        parts = [self._journal(one) for one in (batch, body) if one is not None]
        return self._in_order(parts, body)

    def _new_buffer(self, frame: Frame | None) -> WriteBuffer:
        from seekpoint.producers.durable.replay.replayed_content import ReplayedContent
        from seekpoint.producers.durable.replay.write_buffer import WriteBuffer

        return WriteBuffer(ReplayedContent(self.written, frame, self.limits), self.options.detail)

    def _journal(self, body: Any, wait: bool = True) -> Coroutine[Any, Any, Acknowledged]:
        append = self.append if wait else self.session.pipeline
        if self._writes is None:
            return append(body)
        try:
            return self._writes.write(body, append)
        except ReplayDivergence as exc:
            from seekpoint.producers.durable.replay.differences import changed

            return changed(self.session, exc, body)

    async def _in_order(self, parts: list[Coroutine[Any, Any, Acknowledged]], body: Any) -> Acknowledged:
        for part in parts:
            done = await part
        if self._buffer is not None:
            self._buffer.view.write(body)
        return done

    async def _newest(self) -> Acknowledged:
        return self.session.newest()

    async def flush(self) -> None:
        """Journal the buffered content as one entry."""
        batch = None if self._buffer is None else self._buffer.batch()
        if batch is not None:
            await self._journal(batch)

    async def confirm(self) -> None:
        """Return once everything written so far is journaled and was seen applied."""
        await self.flush()
        await self.session.confirm()

    # --- the end
    async def end(self, body: b.Released | b.Finished) -> None:
        """Write the entry that ends the process for this owner; return once it is confirmed."""
        try:
            await self.session.end(body)
        finally:
            self._abandon_children()

    def abandon(self) -> None:
        """Drop the process on this node, and the children that still run; it stays claimed unless it was released.

        Calls still under way raise ``HandleClosed``: their entries may be in the log, or get there.
        """
        self._abandon_children()
        self.session.abandon()

    async def release_children(self) -> None:
        """Release the children that still run as they stand; return once they are released."""
        if "children" in self.__dict__:  # made at the first one
            await self.children.release()

    def _abandon_children(self) -> None:
        if "children" in self.__dict__:
            self.children.abandon()


def _allow(place: CallPlace) -> None:
    """Check nothing."""


class DurableCalls:
    """The base of the groups of calls of a process."""

    def __init__(self, durable: DurableProcess) -> None:
        self._durable = durable
