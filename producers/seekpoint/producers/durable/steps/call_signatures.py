"""Declare the signatures of the calls that run a function of the user. Only type checkers load this module.

Either the options are the function's (``ParamSpec``), or they are the call's own, and then the function's arguments are
positional (``TypeVarTuple``): no option is both. To give options of both kinds, make a ``Step`` or an ``EffectStep`` of
the function. A function that needs an ``idempotency_key`` gets it from the call, so its other arguments are listed one
by one (``Keyed1`` to ``Keyed4``): no type can take one parameter out of a ``ParamSpec``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from typing import Any, Never, ParamSpec, Protocol, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from seekpoint.producers.durable.budgets.step_usage import Used
from seekpoint.producers.durable.decisions.usage import Usage
from seekpoint.producers.durable.effects.effect_resolution import Effect
from seekpoint.producers.durable.steps.retries import Retry

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A", contravariant=True)
B = TypeVar("B", contravariant=True)
C = TypeVar("C", contravariant=True)
D = TypeVar("D", contravariant=True)


class StepOptions(TypedDict, total=False):
    """The options of ``process.step`` and ``process.tool``."""

    key: str | None
    retry: Retry | None
    timeout: float | timedelta | None
    usage: Used


class DecisionOptions(TypedDict, total=False):
    """The options of ``process.decide``."""

    key: str | None
    retry: Retry | None
    timeout: float | timedelta | None
    usage: Callable[[Any], Usage | None] | Usage | None
    policy: str | None
    estimate: Mapping[str, Any] | None
    on_chunk: Callable[[Any], object] | None


class EffectOptions(TypedDict, total=False):
    """The options of ``process.effect``."""

    semantics: Effect | str
    key: str | None
    reconcile: Callable[..., Any] | None
    connector: str | None
    business_key: str | None
    compensate: Callable[..., Any] | str | None
    retry: Retry | None
    timeout: float | timedelta | None
    estimate: Mapping[str, Any] | None
    irreversible: bool | None


class Unchecked(Protocol[T_co]):
    """A function that takes any arguments."""

    def __call__(self, *arguments: object, **options: object) -> T_co: ...


class Keyed0(Protocol[T_co]):
    """A function of no argument that needs an idempotency key."""

    def __call__(self, *, idempotency_key: str) -> T_co: ...


class Keyed1(Protocol[A, T_co]):
    """A function of one argument that needs an idempotency key."""

    def __call__(self, a: A, /, *, idempotency_key: str) -> T_co: ...


class Keyed2(Protocol[A, B, T_co]):
    """A function of two arguments that needs an idempotency key."""

    def __call__(self, a: A, b: B, /, *, idempotency_key: str) -> T_co: ...


class Keyed3(Protocol[A, B, C, T_co]):
    """A function of three arguments that needs an idempotency key."""

    def __call__(self, a: A, b: B, c: C, /, *, idempotency_key: str) -> T_co: ...


class Keyed4(Protocol[A, B, C, D, T_co]):
    """A function of four arguments that needs an idempotency key."""

    def __call__(self, a: A, b: B, c: C, d: D, /, *, idempotency_key: str) -> T_co: ...


class StepCall(Protocol):
    """The signature of ``process.step`` and ``process.tool``."""

    @overload
    def __call__(
        self, name: str, call: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[P, T], /, *arguments: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], Awaitable[T]], /, *arguments: *Ts, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], T], /, *arguments: *Ts, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed0[Awaitable[T]], /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(self, name: str, call: Keyed0[T], /, **how: Unpack[StepOptions]) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed1[A, Awaitable[T]], a: A, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed1[A, T], a: A, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed2[A, B, Awaitable[T]], a: A, b: B, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed2[A, B, T], a: A, b: B, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, Awaitable[T]], a: A, b: B, c: C, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, T], a: A, b: B, c: C, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, Awaitable[T]], a: A, b: B, c: C, d: D, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, T], a: A, b: B, c: C, d: D, /, **how: Unpack[StepOptions]
    ) -> Coroutine[Any, Any, T]: ...


class BlockingStepCall(Protocol):
    """The step calls of a ``SyncProcess``."""

    @overload
    def __call__(self, name: str, call: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs) -> T: ...
    @overload
    def __call__(self, name: str, call: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], Awaitable[T]], /, *arguments: *Ts, **how: Unpack[StepOptions]
    ) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], T], /, *arguments: *Ts, **how: Unpack[StepOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed0[Awaitable[T]], /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed0[T], /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed1[A, Awaitable[T]], a: A, /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed1[A, T], a: A, /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed2[A, B, Awaitable[T]], a: A, b: B, /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed2[A, B, T], a: A, b: B, /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, Awaitable[T]], a: A, b: B, c: C, /, **how: Unpack[StepOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed3[A, B, C, T], a: A, b: B, c: C, /, **how: Unpack[StepOptions]) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, Awaitable[T]], a: A, b: B, c: C, d: D, /, **how: Unpack[StepOptions]
    ) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, T], a: A, b: B, c: C, d: D, /, **how: Unpack[StepOptions]
    ) -> T: ...


class EffectCall(Protocol):
    """The signature of ``process.effect``; without a function its connector is called."""

    @overload
    def __call__(
        self, name: str, call: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[P, T], /, *arguments: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[Unpack[Ts]], Awaitable[T]],
        /,
        *arguments: *Ts,
        **how: Unpack[EffectOptions],
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], T], /, *arguments: *Ts, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed0[Awaitable[T]], /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(self, name: str, call: Keyed0[T], /, **how: Unpack[EffectOptions]) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed1[A, Awaitable[T]], a: A, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed1[A, T], a: A, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed2[A, B, Awaitable[T]], a: A, b: B, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed2[A, B, T], a: A, b: B, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, Awaitable[T]], a: A, b: B, c: C, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, T], a: A, b: B, c: C, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, Awaitable[T]], a: A, b: B, c: C, d: D, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, T], a: A, b: B, c: C, d: D, /, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: None = None, /, *arguments: Any, **how: Unpack[EffectOptions]
    ) -> Coroutine[Any, Any, Any]: ...


class BlockingEffectCall(Protocol):
    """The effect calls of a ``SyncProcess``."""

    @overload
    def __call__(self, name: str, call: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs) -> T: ...
    @overload
    def __call__(self, name: str, call: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[Unpack[Ts]], Awaitable[T]],
        /,
        *arguments: *Ts,
        **how: Unpack[EffectOptions],
    ) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[Unpack[Ts]], T], /, *arguments: *Ts, **how: Unpack[EffectOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed0[Awaitable[T]], /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed0[T], /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed1[A, Awaitable[T]], a: A, /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed1[A, T], a: A, /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed2[A, B, Awaitable[T]], a: A, b: B, /, **how: Unpack[EffectOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed2[A, B, T], a: A, b: B, /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed3[A, B, C, Awaitable[T]], a: A, b: B, c: C, /, **how: Unpack[EffectOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Keyed3[A, B, C, T], a: A, b: B, c: C, /, **how: Unpack[EffectOptions]) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, Awaitable[T]], a: A, b: B, c: C, d: D, /, **how: Unpack[EffectOptions]
    ) -> T: ...
    @overload
    def __call__(
        self, name: str, call: Keyed4[A, B, C, D, T], a: A, b: B, c: C, d: D, /, **how: Unpack[EffectOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: None = None, /, *arguments: Any, **how: Unpack[EffectOptions]) -> Any: ...


class DecideCall(Protocol):
    """The signature of ``process.decide``; a stream is recorded as the list of its chunks."""

    @overload  # what returns Any returns Any, and not a list
    def __call__(
        self,
        name: str,
        call: Callable[[R], Never] | Callable[[R], Awaitable[Never]],
        request: R,
        **how: Unpack[DecisionOptions],
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[R], AsyncIterator[T]] | Callable[[R], Iterator[T]],
        request: R,
        **how: Unpack[DecisionOptions],
    ) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[AsyncIterator[T]]], request: R, **how: Unpack[DecisionOptions]
    ) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[T]], request: R, **how: Unpack[DecisionOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], T], request: R, **how: Unpack[DecisionOptions]
    ) -> Coroutine[Any, Any, T]: ...


class BlockingDecideCall(Protocol):
    """The decisions of a ``SyncProcess``."""

    @overload  # what returns Any returns Any, and not a list
    def __call__(
        self,
        name: str,
        call: Callable[[R], Never] | Callable[[R], Awaitable[Never]],
        request: R,
        **how: Unpack[DecisionOptions],
    ) -> Any: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[R], AsyncIterator[T]] | Callable[[R], Iterator[T]],
        request: R,
        **how: Unpack[DecisionOptions],
    ) -> list[T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[AsyncIterator[T]]], request: R, **how: Unpack[DecisionOptions]
    ) -> list[T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[T]], request: R, **how: Unpack[DecisionOptions]
    ) -> T: ...
    @overload
    def __call__(self, name: str, call: Callable[[R], T], request: R, **how: Unpack[DecisionOptions]) -> T: ...
