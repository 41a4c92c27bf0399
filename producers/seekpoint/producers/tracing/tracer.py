"""Define the port through which nodes and clients emit live spans."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from seekpoint.schemas.bodies import Body

T = TypeVar("T")


class SpanOfMessage(Protocol):
    """The span of a message that is being sent."""

    @property
    def trace_parent(self) -> str | None:
        """The span as a W3C traceparent, for the message to carry."""
        ...

    def at(self, partition: int, offset: int) -> None:
        """Note where the message is in the log."""
        ...


class Tracer(Protocol):
    """Emits spans. Every block ends its span, with the class of the error that left it."""

    def run(
        self, process_id: str, agent: str, version: str, *, submitted: str | None, first: str | None
    ) -> AbstractContextManager[object]:
        """Span a run: below the span that ``submitted`` it, or linked to the span of the ``first`` run."""
        ...

    def call(
        self, kind: str, name: str, key: str, process_id: str, asked: Any, answer: Callable[..., Coroutine[Any, Any, T]]
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        """Return ``answer`` with a span around it; ``asked`` is a decision's request, else arguments as JSON text."""
        ...

    def note(self, body: Body) -> None:
        """Add what an entry says of the call whose span is the current one: outcome, model, usage, cost."""
        ...

    def current(self) -> str | None:
        """Return the current span as a W3C traceparent; None without one."""
        ...

    def sending(self, topic: str, process_id: str, message_id: bytes) -> AbstractContextManager[SpanOfMessage]:
        """Span the sending of a message to a topic of the journal."""
        ...

    def processing(
        self, topic: str, process_id: str, message_id: bytes, group: str, trace_parent: str | None
    ) -> AbstractContextManager[SpanOfMessage]:
        """Span the processing of a message, below the span that sent it."""
        ...
