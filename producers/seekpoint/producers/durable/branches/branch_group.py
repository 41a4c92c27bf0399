"""Run the branches of one call of ``gather``, ``race`` or ``branch``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

from seekpoint.producers.durable.branches.branch_schedule import BranchTask
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.failures.program_exits import contained
from seekpoint.producers.durable.failures.recorded_failures import is_failure
from seekpoint.schemas.errors import Refused

T = TypeVar("T")


class _RestingTask(NamedTuple):
    """A task that rests until something is so of the branches of a group."""

    is_so: Callable[[], bool]
    task: BranchTask
    over: asyncio.Future[None]


class BranchGroup(Generic[T]):
    """The branches of one call of ``gather``, ``race`` or ``branch``. The call gives them their ids."""

    def __init__(
        self, process: DurableProcess, name: str, branches: Sequence[Coroutine[Any, Any, T]], limit: int | None = None,
        return_exceptions: bool = False,
    ) -> None:  # fmt: skip
        self._matcher = process.matcher
        self._process = process
        try:
            if not _are_new(branches) or (limit is not None and limit < 1):
                raise Refused(
                    f"process.{name} takes coroutines, each of them once, and a limit of at least 1",
                    process_id=process.process_id,
                    hint=f'process.{name}(process.step("look up", look_up), my_async_function())',
                )  # fmt: skip
            self._matcher.branching_scope(f"process.{name}")
        except BaseException:
            _close(branches)
            raise
        self._name = name
        self._left = list(reversed(list(enumerate(branches, 1))))
        self._limit = len(branches) if limit is None else limit
        self._count = len(branches)
        self._return_exceptions = return_exceptions
        self._branches: dict[int, BranchTask] = {}
        self.ended: list[asyncio.Task[T]] = []
        """The tasks of the branches that have ended, in that order."""
        self._failed = False
        self._waiters: list[_RestingTask] = []

    # --- its life
    def open(self) -> None:
        """Start the branches, as many as may run at once, in the scope of the code that awaits them."""
        try:
            self._scope = self._matcher.branching_scope(f"process.{self._name}")
        except BaseException:
            _close(coroutine for _, coroutine in self._left)
            raise
        self._prefix = self._scope.next_branches()
        self._schedule = self._process.open_branches(self._scope)
        while self._left and len(self._branches) < self._limit:
            self._start_next()

    def _start_next(self) -> None:
        number, coroutine = self._left.pop()
        branch = self._branches[number] = BranchTask(self._schedule, None)
        self._schedule.start(branch)
        task = branch.task = asyncio.ensure_future(self._run(branch, f"{self._prefix}{number}/", coroutine))
        task.add_done_callback(partial(self._end, branch, coroutine))

    async def _run(self, branch: BranchTask, prefix: str, coroutine: Coroutine[Any, Any, T]) -> T:
        branch.task = asyncio.current_task()  # an eager task runs before its creator knows it
        with self._matcher.in_branch(self._scope, prefix, branch):
            return await contained(coroutine, "a branch")

    def _end(self, branch: BranchTask, coroutine: Coroutine[Any, Any, T], task: asyncio.Task[T]) -> None:
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:  # the branch was cancelled before it began
            coroutine.close()
        self.ended.append(task)
        self._failed |= self._is_failure(task)  # of each branch: asyncio logs an exception that nobody has looked at
        if self._left and not self._failed:
            self._start_next()
        for waiter in [one for one in self._waiters if one.is_so() and not one.over.done()]:
            self._schedule.start(waiter.task)
            waiter.over.set_result(None)
        self._schedule.rest(branch)

    def _is_failure(self, task: asyncio.Task[T]) -> bool:
        """Whether the branch ended with an exception that is not to be a result."""
        if task.cancelled():
            return True
        error = task.exception()
        is_result = self._return_exceptions and isinstance(error, Exception) and is_failure(error)
        return error is not None and not is_result

    @property
    def is_over(self) -> bool:
        """Whether every branch has ended."""
        return len(self.ended) == self._count

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Let the branch that asks rest until ``is_so()``, which is asked whenever a branch ends."""
        if is_so():
            return
        task = self._matcher.branch_task()
        if task is None or task.task is not asyncio.current_task():
            raise Refused(
                "a task that is not a branch waits for one", process_id=self._process.process_id,
                hint="wait for a branch in the code that started it, or in another branch",
            )  # fmt: skip
        waiter = _RestingTask(is_so, task, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await self._schedule.rest_until(task, waiter.over)
        finally:
            self._waiters.remove(waiter)

    def cancel(self) -> None:
        """Cancel the branches that still run, in their order; start no more."""
        _close(coroutine for _, coroutine in self._left)
        self._count -= len(self._left)
        self._left.clear()
        for branch in self._branches.values():
            if branch.task is not None and not branch.task.done():
                self._schedule.start(branch)
                branch.task.cancel()

    async def close(self) -> None:
        """Cancel the branches that still run; return once all have ended, cancelled or not."""
        self.cancel()
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over:
            try:
                await self.until(lambda: self.is_over)
            except asyncio.CancelledError as exc:
                cancelled = exc
        self._process.close_branches(self._scope)
        if cancelled is not None:
            raise cancelled

    # --- what it gives
    async def gather(self) -> list[Any]:
        """Run all branches to their ends, or to the first failure that is not to be a result."""
        self.open()
        try:
            await self.until(lambda: self.is_over or self._failed)
            first = next(filter(self._is_failure, self.ended), None)
        finally:
            await self.close()
        if first is not None:
            first.result()
        tasks = [self._branches[number].task for number in sorted(self._branches)]
        return [one.exception() or one.result() for one in tasks if one is not None]

    async def race(self) -> T:
        """Run the branches until the first has ended."""
        self.open()
        try:
            await self.until(lambda: bool(self.ended))
            first = self.ended[0]
        finally:
            await self.close()
        return first.result()


def _are_new(branches: Sequence[object]) -> bool:
    """Whether ``branches`` are coroutines, and no two of them the same one."""
    return all(map(inspect.iscoroutine, branches)) and len(set(map(id, branches))) == len(branches)


def _close(branches: Iterable[object]) -> None:
    """Close coroutines that are not going to run, so that the interpreter does not warn of each."""
    for one in branches:
        if inspect.iscoroutine(one):
            one.close()


class Branch(Generic[T]):
    """A branch beside the code of its ``async with`` block. Made by ``process.branch``."""

    def __init__(self, group: BranchGroup[T]) -> None:
        self._group = group
        self._is_known = False
        self._has_begun = False

    async def __aenter__(self) -> Branch[T]:
        """Start it."""
        self._group.open()
        self._has_begun = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for it, or cancel it if the block raised."""
        try:
            if error is None:
                await self._group.until(lambda: self._group.is_over)
        finally:
            await self._group.close()
        if error is None and not self._is_known:
            self._group.ended[0].result()

    async def result(self) -> T:
        """Return what the branch returns, or raise what it raises, once it has ended."""
        self._check_begun()
        await self._group.until(lambda: self._group.is_over)
        self._is_known = True
        return self._group.ended[0].result()

    async def cancel(self) -> None:
        """Cancel the branch; return once it has ended, whatever it raises."""
        self._check_begun()
        self._is_known = True
        self._group.cancel()
        await self._group.until(lambda: self._group.is_over)

    def _check_begun(self) -> None:
        if not self._has_begun:
            raise Refused("the branch has not begun", hint="async with process.branch(...) as branch: ...")
