"""The calls of a process that the runs of a framework's agents make, and the first error that ends them.

A framework turns the errors of a tool into texts for the model. An error that must end the run, such as ``Fenced``,
would be lost so: it is kept here, and each later call raises it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

from seekpoint import Effect, GateAnswer, Process, Usage
from seekpoint.errors import (
    Cancelled,
    HandleLost,
    LimitExceeded,
    OperatorRequired,
    ProcessSuspended,
    Refused,
    Retryable,
    SeekpointError,
    StepFailed,
    UnserializableValue,
)

T = TypeVar("T")

_ENDS_THE_RUN = (OperatorRequired, HandleLost, Retryable, Cancelled, ProcessSuspended)

RESULT_LOST = (
    "The tool has run, and what it did is done. Its result could not be recorded, so it is not shown here. "
    "Do not call the tool again for the same purpose."
)
"""The text for a model in place of a result that cannot be recorded: a text that asks to try again would be wrong."""

_OUTCOMES = ("step_ended", "effect_settled")

_key: ContextVar[str | None] = ContextVar("seekpoint_idempotency_key", default=None)


def idempotency_key() -> str:
    """Return the key of the tool call that runs now: the same one each time this call is made again.

    Pass it on to what the tool calls. Raises ``Refused`` outside of a tool of a durable run.
    """
    key = _key.get()
    if key is None:
        raise Refused("no tool call of a durable run runs here", hint="call it in the body of a function tool")
    return key


def has_run(error: BaseException) -> bool:
    """Whether ``error`` says that a tool has run and only its result is lost: too large, or no JSON.

    The same errors of its arguments name another entry, or no call.
    """
    if not isinstance(error, UnserializableValue | LimitExceeded):
        return False
    return error.facts.get("kind") in _OUTCOMES or "key" in error.facts


class RunCalls:
    """The calls that the runs of agents make on one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.error: SeekpointError | None = None
        """The first error that ends the run."""

    async def decide(
        self, name: str, ask: Callable[..., Awaitable[Any]], request: dict[str, Any],
        usage: Callable[[Any], Usage | None] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Ask a model; record the response, whose usage is read as ``decide`` reads it, or by ``usage``."""
        answer: dict[str, Any] = await self._guarded(lambda: self.process.decide(name, ask, request, usage=usage))
        return answer

    async def tool(
        self, name: str, body: Callable[[], Awaitable[Any]], arguments: Any, call_id: str | None,
        semantics: Effect | None, timeout_s: float | None = None,
    ) -> Any:  # fmt: skip
        """Call a tool as an effect with these semantics, or as a step."""

        async def call(arguments: Any, call_id: str | None, *, idempotency_key: str) -> Any:
            with _named(idempotency_key):
                return await body()

        process = self.process
        if semantics is None:
            return await self._guarded(lambda: process.tool(name, call, arguments, call_id, timeout=timeout_s))
        return await self._guarded(
            lambda: process.effect(name, call, arguments, call_id, semantics=semantics, timeout=timeout_s)
        )

    async def step(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make another call whose result is recorded."""
        return await self._guarded(lambda: self.process.step(name, call, *arguments))

    async def gate(self, name: str, prompt: Any, timeout_s: float | timedelta | None) -> GateAnswer:
        """Wait for a person's answer."""
        return await self._guarded(lambda: self.process.gate(name, prompt=prompt, timeout=timeout_s))

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
