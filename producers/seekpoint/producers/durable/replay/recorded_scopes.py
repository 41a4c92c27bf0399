"""Find the scope that has the records of a call, where the versions of Python and the event loops differ.

``asyncio.wait_for`` starts a task up to Python 3.11; later its coroutine runs in the caller's task. So the records of
its calls are those of a task, ``~1/``, or of the code around it, and a run goes on with the keys of its records.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.producers.durable.replay.scope_tracker import ScopeTracker
from seekpoint.producers.durable.replay.scopes import BRANCH, CURRENT, WRITE, Scope, escaped_key, escaped_name

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.record_index import RecordIndex

_WAIT_FOR = asyncio.wait_for.__code__
_RELEASE_WAITER = getattr(asyncio.tasks, "_release_waiter", None)


class Request(NamedTuple):
    """The request of a call whose scope is not known yet. ``name`` is None of a content write."""

    kind: str
    name: str | None
    key: str | None
    digest: str

    def suffix_in(self, scope: Scope | None) -> str:
        """Return the end of the key of the next call in ``scope``; None: of the first one in a scope."""
        if self.name is None:
            return f"{WRITE}{1 if scope is None else scope.position + 1}"
        if self.key is not None:
            return escaped_key(self.key)
        ordinal = 1 if scope is None else scope.ordinals.get(self.name, 0) + 1
        return f"{escaped_name(self.name)}:{ordinal}"


class RecordedScopes(ScopeTracker):
    """The scopes of one run, found by the calls that its history has."""

    _index: RecordIndex
    _left: int

    def _recorded_scope(self, scope: Scope, request: Request) -> Scope:
        """Return the scope that has the record of a call whose code runs in ``scope``; ``scope`` where none has it."""
        if scope.prefix is None:
            return self._scope_of_task(scope, request)
        if scope is self.main and not scope.position:
            self._find_main(request)
        tasks = self._tasks_that_begin(scope, request)
        if not tasks or scope.branch_task is not None:
            return scope
        awaited = awaited_coroutine()
        if awaited is None or awaited is scope.awaited or self._comes_next(scope, request, before=tasks[0]):
            return scope
        inner = Scope(self, tasks[0], task=asyncio.current_task(), parent=scope, outer=CURRENT.get(), awaited=awaited)
        scope.branches.add(tasks[0])
        CURRENT.set(inner)
        return inner

    def _find_main(self, request: Request) -> None:
        """Let the main code go on as ``~1/``, where an earlier version of Seekpoint ran it as an eager task."""
        own, is_eager = f"{BRANCH}1/", asyncio.get_running_loop().get_task_factory() is not None
        begins = is_eager and self._index.begins(own, request.kind, request.suffix_in(None), request.digest)
        if begins and not self.main.prefix and "" not in self._index.by_scope and awaited_coroutine() is None:
            self.main.prefix = own

    def _tasks_that_begin(self, parent: Scope, request: Request) -> list[str]:
        """Return the scopes of recorded tasks of ``parent`` that begin with this call, and that no task has claimed."""
        if not self._left or parent.again is not None:
            return []
        kind, suffix, digest = request.kind, request.suffix_in(None), request.digest
        tasks = self._index.tasks_that_begin(parent.prefix or "", kind, suffix, digest)
        return [prefix for prefix in tasks if prefix not in parent.branches]

    def _scope_of_wait(self, parent: Scope, request: Request) -> Scope | None:
        """Return the scope of a wait that is over, if the task that waited has its next recorded call there."""
        over = (one for one in parent.waits if one.is_awaited_no_more or (one.task is not None and one.task.done()))
        return next((one for one in over if self._comes_next(one, request, before=None)), None)

    def _comes_next(self, scope: Scope, request: Request, before: str | None) -> bool:
        """Return whether the next recorded call of ``scope`` is this one, and older than the first of ``before``.

        Code that ``wait_for`` awaits and the code around it take turns, so the log has their calls in their order.
        """
        record = self.records.get(f"{scope.prefix}{request.suffix_in(scope)}")
        if record is None or record.position != scope.position + 1:
            return False
        if record.kind != request.kind or record.digest != request.digest:
            return False
        return before is None or record.seq < self.records[before + request.suffix_in(None)].seq

    def _scope_of_task(self, scope: Scope, request: Request) -> Scope:
        """Find which recorded task this task is, by the order of the tasks' first calls, which the program decides.

        A task without records had not begun. If the next recorded task begins with another call, the event loop may
        have started the tasks in another order: then the first remaining task that begins with the same call is taken.
        If there is none, the comparison of the first call reports the difference. A task of ``wait_for`` had none of
        its own if the calls are recorded in the scope around it.
        """
        parent = scope.parent
        assert parent is not None
        if parent.prefix is None:
            parent = scope.parent = self._scope_of_task(parent, request)
        number = 1
        while (prefix := f"{parent.prefix}{BRANCH}{number}/") in parent.branches:
            number += 1
        tasks = self._tasks_that_begin(parent, request)
        is_waited_for = self._left and parent.again is None and is_started_by_wait_for(scope.task)
        if is_waited_for and self._comes_next(parent, request, before=tasks[0] if tasks else None):
            parent.guests = (*parent.guests, scope.task)
            CURRENT.set(parent)
            return parent
        if not tasks and (waited := self._scope_of_wait(parent, request)) is not None:
            waited.guests, waited.awaited = (*waited.guests, scope.task), None
            CURRENT.set(waited)
            return waited
        if tasks and prefix not in tasks and prefix in self._index.by_scope:
            prefix = tasks[0]
        if tasks:
            scope.awaited = None if is_waited_for else awaited_coroutine()
            if is_waited_for or scope.awaited is not None:
                parent.waits.append(scope)
        scope.prefix = prefix
        parent.branches.add(prefix)
        return scope


def awaited_coroutine() -> Coroutine[Any, Any, Any] | None:
    """Return the coroutine that the innermost ``wait_for`` of the current task awaits in that task; None without one.

    It looks at the frames of the running code, so it costs a microsecond or a few.
    """
    task = asyncio.current_task()
    outermost = None if task is None else getattr(task.get_coro(), "cr_frame", None)
    frame = sys._getframe(1)
    while frame.f_code is not _WAIT_FOR:
        if frame is outermost or frame.f_back is None:  # an eager task begins above the frames of its creator
            return None
        frame = frame.f_back
    awaited = frame.f_locals.get(_WAIT_FOR.co_varnames[0])
    return awaited if asyncio.iscoroutine(awaited) else None


def is_started_by_wait_for(task: asyncio.Task[Any] | None) -> bool:
    """Return whether a ``wait_for`` of Python 3.11 waits for ``task``, which it started itself as a rule."""
    callbacks = getattr(task, "_callbacks", None) or ()
    return any(isinstance(call, partial) and call.func is _RELEASE_WAITER for call, _ in callbacks)
