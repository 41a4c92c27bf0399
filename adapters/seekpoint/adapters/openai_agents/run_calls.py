"""The calls of a process that the runs of a ``DurableRunner`` make, and the first error that ends them.

The SDK turns the errors of a tool into texts for the model. An error that must end the run, such as ``Fenced``, would
be lost so: it is kept here, and each later call raises it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from seekpoint import Effect, Process
from seekpoint.errors import (
    Cancelled,
    HandleLost,
    OperatorRequired,
    ProcessSuspended,
    Refused,
    Retryable,
    SeekpointError,
    StepFailed,
)

__all__ = ["RunCalls", "idempotency_key"]

T = TypeVar("T")

_ENDS_THE_RUN = (OperatorRequired, HandleLost, Retryable, Cancelled, ProcessSuspended)

_key: ContextVar[str | None] = ContextVar("seekpoint_idempotency_key", default=None)


def idempotency_key() -> str:
    """Return the key of the tool call that runs now: the same one each time this call is made again.

    Pass it on to what the tool calls. Raises ``Refused`` outside of a tool of a ``DurableRunner``.
    """
    key = _key.get()
    if key is None:
        raise Refused("no tool call of a DurableRunner runs here", hint="call it in the body of a function tool")
    return key


class RunCalls:
    """The calls of one ``DurableRunner``."""

    def __init__(self, process: Process, effects: Mapping[str, Effect]) -> None:
        self.process = process
        self.effects = effects
        self.error: SeekpointError | None = None
        """The first error that ends the run."""

    async def decide(self, ask: Callable[[dict[str, Any]], Awaitable[Any]], request: dict[str, Any]) -> dict[str, Any]:
        """Ask a model; record the response."""
        answer: dict[str, Any] = await self._guarded(lambda: self.process.decide("model", ask, request))
        return answer

    async def tool(
        self, name: str, body: Callable[[], Awaitable[Any]], arguments: Any, call_id: str, timeout_s: float | None,
        bare_name: str | None = None,
    ) -> Any:  # fmt: skip
        """Call a tool, as the effect that was declared for its name, with or without its namespace, or as a step."""

        async def call(arguments: Any, call_id: str, *, idempotency_key: str) -> Any:
            with _named(idempotency_key):
                return await body()

        process, semantics = self.process, self.effects.get(name, self.effects.get(bare_name or name))
        if semantics is None:
            return await self._guarded(lambda: process.tool(name, call, arguments, call_id, timeout=timeout_s))
        return await self._guarded(
            lambda: process.effect(name, call, arguments, call_id, semantics=semantics, timeout=timeout_s)
        )

    async def step(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make another call whose result is recorded."""
        return await self._guarded(lambda: self.process.step(name, call, *arguments))

    async def _guarded(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.error is not None:
            raise self.error
        try:
            return await call()
        except SeekpointError as exc:
            if isinstance(exc, _ENDS_THE_RUN) and not isinstance(exc, StepFailed):
                self.error = self.error or exc
            raise


@contextmanager
def _named(key: str) -> Iterator[None]:
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)
