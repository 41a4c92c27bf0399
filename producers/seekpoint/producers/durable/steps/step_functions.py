"""Make steps of functions: ``@step`` over a function, which then is called with the process as its first argument."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from seekpoint.producers.durable.steps.annotations import note_result_type
from seekpoint.producers.durable.steps.call_options import check_options, name_of
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_calls import StepCalls, own_step

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.producers.durable.budgets.step_usage import Used
    from seekpoint.producers.durable.steps.call_signatures import (
        Keyed0,
        Keyed1,
        Keyed2,
        Keyed3,
        Keyed4,
        StepOptions,
        Unchecked,
    )

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Step(Generic[P, T]):
    """A function that is a step when it is called: ``await look_up(process, "4711")``. Made by ``@step``."""

    def __init__(
        self, call: Callable[..., Any], name: str, retry: Retry | None, timeout: Any, usage: Used,
        key: str | None = None,
    ) -> None:  # fmt: skip
        self.call = call
        """The function itself, for tests."""
        self.name = name
        self._retry = retry
        self._timeout = timeout
        self._usage = usage
        self._key = key
        self.__doc__ = call.__doc__

    def __call__(self, process: StepCalls, /, *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        """Return the step of ``process``. All options are the function's: ``InvalidOption`` names one it has not."""
        if options:
            check_options(f"the step {self.name}", self.call, options)
        return own_step(
            process._durable, self.name, self.call, arguments, options, {}, self._key, self._retry, self._timeout,
            self._usage,
        )  # fmt: skip

    def with_options(self, **options: Unpack[StepOptions]) -> Step[P, T]:
        """Return the same step with another ``key``, ``retry``, ``timeout`` or ``usage``."""
        own = {"retry": self._retry, "timeout": self._timeout, "usage": self._usage, "key": self._key}
        check_options("with_options", None, options, own)
        return Step(self.call, self.name, **{**own, **options})


def step(
    name: str | None = None, *, retry: Retry | None = None, timeout: float | timedelta | None = None, usage: Used = None
) -> _StepDecorator:
    """Make a step of a function; its name is the function's unless given.

    ``@step(retry=Retry(attempts=3))`` over ``async def look_up(order)``; then ``await look_up(process, "4711")``.
    ``look_up.with_options(key="first")(process, "4711")`` gives one call another option.
    """
    return _StepDecorator(name, retry, timeout, usage)


class _StepDecorator:
    def __init__(self, name: str | None, *own: Any) -> None:
        self._name, self._own = name, own

    @overload
    def __call__(self, call: Unchecked[Awaitable[T]]) -> Step[..., T]: ...
    @overload
    def __call__(self, call: Unchecked[T]) -> Step[..., T]: ...
    @overload
    def __call__(self, call: Keyed4[A, B, C, D, Awaitable[T]]) -> Step[[A, B, C, D], T]: ...
    @overload
    def __call__(self, call: Keyed4[A, B, C, D, T]) -> Step[[A, B, C, D], T]: ...
    @overload
    def __call__(self, call: Keyed3[A, B, C, Awaitable[T]]) -> Step[[A, B, C], T]: ...
    @overload
    def __call__(self, call: Keyed3[A, B, C, T]) -> Step[[A, B, C], T]: ...
    @overload
    def __call__(self, call: Keyed2[A, B, Awaitable[T]]) -> Step[[A, B], T]: ...
    @overload
    def __call__(self, call: Keyed2[A, B, T]) -> Step[[A, B], T]: ...
    @overload
    def __call__(self, call: Keyed1[A, Awaitable[T]]) -> Step[[A], T]: ...
    @overload
    def __call__(self, call: Keyed1[A, T]) -> Step[[A], T]: ...
    @overload
    def __call__(self, call: Keyed0[Awaitable[T]]) -> Step[[], T]: ...
    @overload
    def __call__(self, call: Keyed0[T]) -> Step[[], T]: ...
    @overload
    def __call__(self, call: Callable[P, Awaitable[T]]) -> Step[P, T]: ...
    @overload
    def __call__(self, call: Callable[P, T]) -> Step[P, T]: ...
    def __call__(self, call: Callable[..., Any]) -> Step[..., Any]:
        if "<locals>" in getattr(call, "__qualname__", ""):  # only here are the names around it known
            note_result_type(call, sys._getframe(1).f_locals)
        return Step(call, self._name or name_of(call), *self._own)
