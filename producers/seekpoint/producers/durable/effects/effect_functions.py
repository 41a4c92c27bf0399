"""Make effects of functions: ``@effect`` over a function, which then is called with the process as first argument."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from seekpoint.producers.durable.effects.effect_calls import EffectCalls, own_effect, register
from seekpoint.producers.durable.steps.annotations import note_result_type
from seekpoint.producers.durable.steps.call_options import check_options, name_of

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.producers.durable.steps.call_signatures import (
        EffectOptions,
        Keyed0,
        Keyed1,
        Keyed2,
        Keyed3,
        Keyed4,
        Unchecked,
    )

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_OPTIONS = (
    "semantics", "key", "reconcile", "connector", "business_key", "compensate", "retry", "timeout", "estimate",
    "irreversible",
)  # fmt: skip


class EffectStep(Generic[P, T]):
    """A function that ``@effect`` makes an effect: ``await refund(process, 5)``."""

    def __init__(self, call: Callable[..., Any], name: str, how: Mapping[str, Any]) -> None:
        self.call = call
        """The function without the effect, for tests."""
        self.name = name
        self._how = how
        self.__doc__ = call.__doc__

    def __call__(self, process: EffectCalls, /, *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        """Make the effect in ``process``. All options are the function's: ``InvalidOption`` names one it has not."""
        if options:
            check_options(f"the effect {self.name}", self.call, options)
        return own_effect(process._durable, self.name, self.call, arguments, options, **self._how)

    def with_options(self, **options: Unpack[EffectOptions]) -> EffectStep[P, T]:
        """Return the same effect with other options of ``process.effect``, such as ``key`` and ``business_key``."""
        return EffectStep(self.call, self.name, {**self._how, **_checked("with_options", options)})


def effect(name: str | None = None, **how: Unpack[EffectOptions]) -> _EffectDecorator:
    """Make an effect of a function, by default with the function's name; ``how`` are options of ``process.effect``.

    ``@effect(semantics=Effect.AT_MOST_ONCE, reconcile=find_refund)`` over ``async def refund(amount, *,
    idempotency_key)``; then ``await refund.with_options(business_key="order-4711")(process, 5)``.
    """
    return _EffectDecorator(name, _checked("effect", how))


def _checked(taker: str, how: Mapping[str, Any]) -> Mapping[str, Any]:
    check_options(taker, None, how, dict.fromkeys(_OPTIONS))
    if callable(how.get("compensate")):
        register(how["compensate"])
    return how


class _EffectDecorator:
    def __init__(self, name: str | None, how: Mapping[str, Any]) -> None:
        self._name = name
        self._how = how

    @overload
    def __call__(self, call: Unchecked[Awaitable[T]]) -> EffectStep[..., T]: ...
    @overload
    def __call__(self, call: Unchecked[T]) -> EffectStep[..., T]: ...
    @overload
    def __call__(self, call: Keyed4[A, B, C, D, Awaitable[T]]) -> EffectStep[[A, B, C, D], T]: ...
    @overload
    def __call__(self, call: Keyed4[A, B, C, D, T]) -> EffectStep[[A, B, C, D], T]: ...
    @overload
    def __call__(self, call: Keyed3[A, B, C, Awaitable[T]]) -> EffectStep[[A, B, C], T]: ...
    @overload
    def __call__(self, call: Keyed3[A, B, C, T]) -> EffectStep[[A, B, C], T]: ...
    @overload
    def __call__(self, call: Keyed2[A, B, Awaitable[T]]) -> EffectStep[[A, B], T]: ...
    @overload
    def __call__(self, call: Keyed2[A, B, T]) -> EffectStep[[A, B], T]: ...
    @overload
    def __call__(self, call: Keyed1[A, Awaitable[T]]) -> EffectStep[[A], T]: ...
    @overload
    def __call__(self, call: Keyed1[A, T]) -> EffectStep[[A], T]: ...
    @overload
    def __call__(self, call: Keyed0[Awaitable[T]]) -> EffectStep[[], T]: ...
    @overload
    def __call__(self, call: Keyed0[T]) -> EffectStep[[], T]: ...
    @overload
    def __call__(self, call: Callable[P, Awaitable[T]]) -> EffectStep[P, T]: ...
    @overload
    def __call__(self, call: Callable[P, T]) -> EffectStep[P, T]: ...
    def __call__(self, call: Callable[..., Any]) -> EffectStep[..., Any]:
        if "<locals>" in getattr(call, "__qualname__", ""):  # only here are the names around it known
            note_result_type(call, sys._getframe(1).f_locals)
        return EffectStep(call, self._name or name_of(call), self._how)
