"""Concurrent branches that replay the same way by construction: ``gather``, ``race`` and ``branch``."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from seekpoint.producers.durable.durable_process import DurableCalls
from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.branch_group import Branch

T = TypeVar("T")


class BranchCalls(DurableCalls):
    """The calls of a process that make branches: ``gather``, ``race``, ``branch``.

    A branch is a coroutine: a call of the process (``process.step(...)``) or one of your own. Inside a branch, wait for
    calls of the process and for other branches only. ``Refused`` in a task that ``asyncio`` started: start that as a
    branch too. The bodies of calls may do as they like.
    """

    @overload
    def gather(
        self, *branches: Coroutine[Any, Any, T], limit: int | None = None, return_exceptions: Literal[False] = False
    ) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def gather(
        self, *branches: Coroutine[Any, Any, T], limit: int | None = None, return_exceptions: bool
    ) -> Coroutine[Any, Any, list[T | BaseException]]: ...
    def gather(
        self, *branches: Coroutine[Any, Any, Any], limit: int | None = None, return_exceptions: bool = False
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run all branches; return their results in the order of the arguments.

        At most ``limit`` of them run at once. If one fails, the others are cancelled, and its exception is raised once
        they have ended. With ``return_exceptions`` failures are results; errors that end the run are raised still.
        """
        from seekpoint.producers.durable.branches.branch_group import BranchGroup

        return BranchGroup(self._durable, "gather", branches, limit, return_exceptions).gather()

    def race(self, *branches: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Run all branches; return the result of the first that ends, or raise its exception, and cancel the others.

        A time-out: ``process.race(work(), process.sleep(60))``. The branch that won wins every replay.
        """
        from seekpoint.producers.durable.branches.branch_group import BranchGroup

        if not branches:
            raise Refused("a race needs a branch", process_id=self._durable.process_id, hint="process.race(one, other)")
        return BranchGroup(self._durable, "race", branches).race()

    def branch(self, branch: Coroutine[Any, Any, T]) -> Branch[T]:
        """Run a branch beside the code of an ``async with`` block.

        ``async with process.branch(watch()) as watcher: ...``. The end of the block waits for the branch and raises its
        exception; an exception in the block cancels it. ``await watcher.result()``, ``await watcher.cancel()``.
        """
        from seekpoint.producers.durable.branches.branch_group import Branch, BranchGroup

        return Branch(BranchGroup(self._durable, "branch", (branch,)))
