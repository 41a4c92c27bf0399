"""Find where the code that runs stands: in the main code, in the body of a call, in a task, or in a branch."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.scopes import CURRENT, CallPlace, Scope
from seekpoint.schemas.errors import Refused

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.branch_schedule import BranchTask
    from seekpoint.schemas.state.calls import Call


class ScopeTracker:
    """The scopes of one run of one process's code. ``task`` runs its main code; None: any code outside of tasks."""

    def __init__(self, process_id: str, records: Mapping[str, Call], task: asyncio.Task[object] | None) -> None:
        self.process_id = process_id
        self.records = records
        self.main = Scope(self, "", task=task)
        self.bodies_again: set[str | None] = set()
        """The scopes of the bodies that run, of calls in doubt that have to make their recorded calls again."""
        self._is_closed = False

    def close(self) -> None:
        """Cancel whatever the code asks from here on: its run was cancelled."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise asyncio.CancelledError("the run was cancelled")

    def _scope(self) -> Scope:
        self._check_open()
        scope = self._scope_of_context()
        try:
            task = asyncio.current_task()
        except RuntimeError:
            raise Refused(
                "a call from outside the event loop", process_id=self.process_id,
                hint="make the function that calls it async: a plain one runs in a thread",
            ) from None  # fmt: skip
        if scope.task is not task and (scope.task is not None or scope is not self.main) and task not in scope.guests:
            if scope.branch_task is not None:
                raise Refused(
                    "a task that is not a branch makes a call while branches run", process_id=self.process_id,
                    scope=scope.prefix, hint="start it with process.gather, process.race or process.branch",
                )  # fmt: skip
            scope = Scope(self, None, task=task, parent=scope, outer=CURRENT.get(), again=scope.again)
            CURRENT.set(scope)
        if scope.is_over:
            raise Refused(
                "a call after its turn, or the call it was made in, has ended",
                process_id=self.process_id, scope=scope.prefix, hint="await every task you start before that ends",
            )  # fmt: skip
        return scope

    def check_is_main(self, what: str) -> None:
        """Raise ``Refused`` unless the main code asks: not a task of its own, a branch or the body of a call."""
        self._check_open()
        scope = self._scope_of_context()
        is_main = scope is self.main and self.main.task in (None, asyncio.current_task())
        if not is_main or scope.branch_task is not None:
            raise Refused(
                f"{what} belongs into the main code", process_id=self.process_id,
                hint="call it neither in a step, nor in a task of its own, nor while branches run",
            )  # fmt: skip

    def _scope_of_context(self) -> Scope:
        scope = CURRENT.get()
        while scope is not None and (scope.tracker is not self or scope.is_awaited_no_more):
            scope = scope.outer
        return scope or self.main

    def check_not_in_body(self) -> Scope:
        """Return the scope of the code that runs. Raise ``Refused`` inside the body of a call."""
        scope = self._scope()
        if scope.body is not None:
            raise Refused(
                "content is not written inside the body of a step", process_id=self.process_id, scope=scope.prefix,
                hint="return it from the step, and write it afterwards",
            )  # fmt: skip
        return scope

    # --- explicit branches
    def branch_task(self) -> BranchTask | None:
        """Return the task whose calls a schedule of branches answers; None where no branches run."""
        return self.main.branch_task if CURRENT.get() is None else self._scope_of_context().branch_task

    def branching_scope(self, what: str) -> Scope:
        """Return the scope this code runs in, if it may start explicit branches; else raise ``Refused``."""
        self._check_open()
        scope = self._scope_of_context()
        is_here = scope.task is not None and scope.task is asyncio.current_task()
        if not is_here or scope.is_of_a_task or scope.is_over:
            raise Refused(
                f"{what} starts branches of the main code, of a branch or of the body of a call", scope=scope.prefix,
                process_id=self.process_id,
                hint="start a task of your own as a branch too; an agent that starts branches is an async function",
            )  # fmt: skip
        return scope

    def in_branch(self, around: Scope, prefix: str, branch: BranchTask) -> Scope:
        """Return the scope of an explicit branch: ``with`` it, while its code runs in a task of its own."""
        scope = Scope(
            self, prefix, task=branch.task, parent=around, outer=CURRENT.get(), again=around.again, branch_task=branch
        )
        around.explicit_branches.append(scope)
        return scope

    # --- bodies
    def inside(
        self, place: CallPlace, *, records: Mapping[str, Call] | None = None, lenient_below_seq: int | None = None
    ) -> Scope:
        """Return the scope ``KEY/`` of the body of the call at ``place``: ``with`` it, while the body runs.

        ``lenient_below_seq``: a further attempt after a failure; ``records`` are the calls remembered by now.
        """
        prefix = f"{place.key}/"
        again = place.scope.again  # that of a body around it, whose effects may be made here now
        if lenient_below_seq is not None:
            from seekpoint.producers.durable.replay.further_attempts import FurtherAttempt

            keys = partial(self.keys_inside, place.scope.body or prefix)
            again = FurtherAttempt(
                prefix, self.records if records is None else records, lenient_below_seq, keys, place.scope.again
            )
        return Scope(
            self, prefix, task=asyncio.current_task(), parent=place.scope, outer=CURRENT.get(), again=again,
            is_body=True, runs_again=again is None and place.record is not None,
        )  # fmt: skip

    def keys_inside(self, body: str) -> Collection[str]:
        """Return the keys of all calls that the outermost body ``body`` has made so far, in earlier attempts too."""
        raise NotImplementedError
