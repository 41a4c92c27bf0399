"""Declare the signature of ``process.decide_stream``. Only type checkers load this module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from datetime import timedelta
from typing import Any, Never, Protocol, TypedDict, TypeVar, Unpack, overload

from seekpoint.producers.durable.decisions.usage import Usage
from seekpoint.producers.durable.steps.retries import Retry

R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StreamOptions(TypedDict, total=False):
    """The options of ``process.decide_stream``."""

    key: str | None
    retry: Retry | None
    timeout: float | timedelta | None
    usage: Callable[[Any], Usage | None] | Usage | None
    policy: str | None
    estimate: Mapping[str, Any] | None


class Chunks(Protocol[T_co]):
    """The chunks of a stream, as they come."""

    def __aiter__(self) -> Chunks[T_co]: ...
    def __anext__(self) -> Awaitable[T_co]: ...
    async def aclose(self) -> None: ...


class StreamCall(Protocol):
    """The signature of ``process.decide_stream``."""

    @overload  # what returns Any
    def __call__(
        self,
        name: str,
        call: Callable[[R], Never] | Callable[[R], Awaitable[Never]],
        request: R,
        **how: Unpack[StreamOptions],
    ) -> Chunks[Any]: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[R], AsyncIterator[T]] | Callable[[R], Iterator[T]],
        request: R,
        **how: Unpack[StreamOptions],
    ) -> Chunks[T]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[AsyncIterator[T]]], request: R, **how: Unpack[StreamOptions]
    ) -> Chunks[T]: ...


class BlockingStreamCall(Protocol):
    """The same of a ``SyncProcess``."""

    @overload  # what returns Any
    def __call__(
        self,
        name: str,
        call: Callable[[R], Never] | Callable[[R], Awaitable[Never]],
        request: R,
        **how: Unpack[StreamOptions],
    ) -> Generator[Any, None, None]: ...
    @overload
    def __call__(
        self,
        name: str,
        call: Callable[[R], AsyncIterator[T]] | Callable[[R], Iterator[T]],
        request: R,
        **how: Unpack[StreamOptions],
    ) -> Generator[T, None, None]: ...
    @overload
    def __call__(
        self, name: str, call: Callable[[R], Awaitable[AsyncIterator[T]]], request: R, **how: Unpack[StreamOptions]
    ) -> Generator[T, None, None]: ...
