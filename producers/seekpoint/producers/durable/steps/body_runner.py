"""Run the bodies of calls: the callables that a step, an effect, a decision or a sample is given."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from seekpoint.producers.durable.steps.body_threads import RunInThread
from seekpoint.producers.writer.clocks import Clock


class BodyHost(Protocol):
    """The place where the body of a call runs: a process, or a node."""

    clock: Clock

    def body_thread(self, key: str) -> Coroutine[Any, Any, RunInThread]:
        """Wait until a thread is free for a user's blocking function; return what runs it there."""
        ...


async def run_body(
    host: BodyHost,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    timeout_s: float | None,
    key: str,
    whole: Callable[[Any], Awaitable[Any]] | None = None,
) -> Any:
    """Await an async callable; run a plain one in a thread of the node's. ``TimeoutError`` after ``timeout_s``, which
    begin when the call does: the wait for a free thread does not count.

    An exit, or another error that is no ``Exception`` and no stop of the task, is raised as a ``RuntimeError``.

    ``whole`` makes of what it gave what is kept, in the same time and place.
    """
    run = None if _is_async(call) else await host.body_thread(key)
    called = _called(run, call, arguments, options, whole)
    if timeout_s is None:
        return await called
    try:
        async with host.clock.timeout(timeout_s) as limit:
            return await called
    except TimeoutError as exc:
        if exc.args or not limit.expired():
            raise  # the callable's own
    late = TimeoutError(f"{key} took longer than {timeout_s} s")
    if run is None:
        raise late
    from seekpoint.producers.durable.failures.transient import still_running

    raise still_running(late)


async def _called(
    run: RunInThread | None,
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    whole: Callable[[Any], Awaitable[Any]] | None,
) -> Any:
    task = asyncio.current_task()
    try:
        if run is None:
            found = await call(*arguments, **options)
        else:
            found = await run(partial(call, *arguments, **options))
            found = await found if inspect.isawaitable(found) else found
        return found if whole is None else await whole(found)
    except BaseException as exc:
        from seekpoint.producers.durable.failures.program_exits import raise_failure

        raise_failure(exc, task, "the call")
        raise


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
