"""Emit spans to the TracerProvider that the program has configured, by the API of OpenTelemetry alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from seekpoint.producers.tracing.span_attributes import (
    call_attributes,
    message_attributes,
    run_attributes,
    span_name,
    usage_attributes,
)
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.values.json_values import dump, load

_NO_LIMITS = Limits(depth=1_000_000, items=1_000_000_000)
"""The journal's own limits have admitted what is written here: a span must not refuse it."""
T = TypeVar("T")


class _TracedCall(NamedTuple):
    kind: str
    key: str
    span: Any


_TOOLS = ("tool", "effect")
_ARGUMENTS = dict.fromkeys(_TOOLS, "gen_ai.tool.call.arguments")
_RESULTS = dict.fromkeys(_TOOLS, "gen_ai.tool.call.result")
_CALL: ContextVar[_TracedCall | None] = ContextVar("seekpoint_traced_call", default=None)
"""The call that is executed: its entries say more of its span."""


class OpenTelemetryTracer:
    """A ``Tracer`` on OpenTelemetry. A provider that is set later is used from then on."""

    def __init__(self, settings: Settings) -> None:
        try:
            self._trace = import_module("opentelemetry.trace")
            self._propagator = import_module(
                "opentelemetry.trace.propagation.tracecontext"
            ).TraceContextTextMapPropagator()
        except ImportError as exc:
            raise InvalidSetting(
                "tracing needs the package opentelemetry-api", setting="tracing",
                hint="pip install 'seekpoint[otel]', or tracing = off",
            ) from exc  # fmt: skip
        self._tracer = self._trace.get_tracer("seekpoint")
        self._settings = settings
        self._with_content = settings.tracing == "content"

    # --- runs and calls
    @contextmanager
    def run(
        self, process_id: str, agent: str, version: str, *, submitted: str | None, first: str | None
    ) -> Iterator[None]:
        """Span a run. A resumed one belongs to its caller's trace, else to that of the first run."""
        attributes = run_attributes(process_id, agent, version, self._settings.journal, is_resumed=first is not None)
        caller = self._trace.get_current_span().get_span_context()
        parent = submitted if first is None else None if caller.is_valid else first
        links = [self._trace.Link(span)] if (span := self._span_context(first)) is not None else []
        with self._span(f"invoke_agent {agent}", "INTERNAL", attributes, parent, links):
            yield

    def call(
        self, kind: str, name: str, key: str, process_id: str, asked: Any, answer: Callable[..., Coroutine[Any, Any, T]]
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        """Return ``answer`` with a span around its execution."""

        async def traced(*given: Any) -> T:
            with self._call_span(kind, name, key, process_id, asked) as span:
                token = _CALL.set(_TracedCall(kind, key, span))
                try:
                    return await answer(*given)
                finally:
                    _CALL.reset(token)

        return traced

    def _call_span(self, kind: str, name: str, key: str, process_id: str, asked: Any) -> Any:
        if kind == "receive":
            topic = self._settings.topic_name("journal")
            attributes = {**message_attributes("receive", topic, process_id, None), "seekpoint.key": key}
            return self._span(f"receive {topic}", "CLIENT", attributes)
        model = asked.get("model") if kind == "decision" and isinstance(asked, Mapping) else None
        model = model if isinstance(model, str) else None
        attributes = call_attributes(kind, name, key, process_id, model)
        if self._with_content and kind == "decision":
            attributes["gen_ai.input.messages"] = self._text(input_messages(asked))
        elif self._with_content and isinstance(asked, str):
            attributes[_ARGUMENTS.get(kind, "seekpoint.arguments")] = self._text(asked)
        return self._span(span_name(kind, name, model), "CLIENT" if kind == "decision" else "INTERNAL", attributes)

    def note(self, body: b.Body) -> None:
        """Add what an entry says of the current call to its span."""
        call = _CALL.get()
        if call is None or getattr(body, "key", None) != call.key:
            return
        if isinstance(body, b.Received) and body.external_id != b.NIL_ID:
            call.span.set_attribute("messaging.message.id", id_text(body.external_id))
        elif isinstance(body, b.StepEnded | b.DecisionMade | b.EffectSettled):
            call.span.set_attributes({"seekpoint.attempt": body.attempt, "seekpoint.outcome": body.outcome})
            if isinstance(body, b.DecisionMade):
                usage = {} if body.usage is None else load(body.usage)
                call.span.set_attributes(usage_attributes(body.model, usage, body.cost_usd))
            if self._with_content and body.outcome == "succeeded":
                self._note_result(call, body)

    def _note_result(self, call: _TracedCall, body: b.StepEnded | b.DecisionMade | b.EffectSettled) -> None:
        if isinstance(body, b.DecisionMade):
            messages = output_messages(load(body.response or "null"))
            call.span.set_attribute("gen_ai.output.messages", self._text(messages))
        else:
            call.span.set_attribute(_RESULTS.get(call.kind, "seekpoint.result"), self._text(body.output))

    def _text(self, content: str) -> str:
        """Return content as an attribute may show it: with the settings' secrets masked."""
        return self._settings.scrub(content)

    # --- messages
    @contextmanager
    def sending(self, topic: str, process_id: str, message_id: bytes) -> Iterator[_MessageSpan]:
        """Span the sending of a message."""
        name = self._settings.topic_name(topic)
        attributes = message_attributes("send", name, process_id, id_text(message_id))
        with self._span(f"send {name}", "PRODUCER", attributes) as span:
            yield _MessageSpan(span, self.current())

    @contextmanager
    def processing(
        self, topic: str, process_id: str, message_id: bytes, group: str, trace_parent: str | None
    ) -> Iterator[_MessageSpan]:
        """Span the processing of a message, below the span that sent it."""
        name = self._settings.topic_name(topic)
        attributes = message_attributes("process", name, process_id, id_text(message_id))
        attributes["messaging.consumer.group.name"] = group
        with self._span(f"process {name}", "CONSUMER", attributes, trace_parent) as span:
            yield _MessageSpan(span, self.current())

    # --- contexts
    def current(self) -> str | None:
        """Return the current span as a W3C traceparent; None without one."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent")

    def _context(self, trace_parent: str | None) -> Any:
        """Return the context with the span of ``trace_parent`` as the current one; None: the context as it is."""
        return None if trace_parent is None else self._propagator.extract({"traceparent": trace_parent})

    def _span_context(self, trace_parent: str | None) -> Any:
        if trace_parent is None:
            return None
        found = self._trace.get_current_span(self._context(trace_parent)).get_span_context()
        return found if found.is_valid else None

    @contextmanager
    def _span(
        self, name: str, kind: str, attributes: Mapping[str, Any], trace_parent: str | None = None, links: Any = ()
    ) -> Iterator[Any]:
        """Make a span the current one. Of an error it has the class only: a message may quote a prompt."""
        with self._tracer.start_as_current_span(
            name, context=self._context(trace_parent), kind=self._trace.SpanKind[kind], attributes=attributes,
            links=links, record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield span
            except asyncio.CancelledError:
                span.set_attribute("seekpoint.outcome", "released")  # parked, drained or cancelled: it goes on later
                raise
            except Exception as exc:
                span.set_attribute("error.type", type(exc).__qualname__)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
                raise


class _MessageSpan:
    """The span of a message."""

    def __init__(self, span: Any, trace_parent: str | None) -> None:
        self._span = span
        self.trace_parent = trace_parent

    def at(self, partition: int, offset: int) -> None:
        """Note where the message is in the log."""
        self._span.set_attributes({"messaging.destination.partition.id": str(partition), "kafka.offset": offset})


def input_messages(request: Any) -> str:
    """Return the messages of a request as JSON text; any other request as one message of a user.

    >>> input_messages({"messages": [{"role": "user", "content": "hello"}]})
    '[{"parts":[{"content":"hello","type":"text"}],"role":"user"}]'
    """
    found = request.get("messages") if isinstance(request, Mapping) else None
    messages = found if isinstance(found, list | tuple) else [{"role": "user", "content": request}]
    return dump([_message(one, "user") for one in messages], _NO_LIMITS)


def output_messages(response: Any) -> str:
    """Return the messages of a response of a common model API; any other response as one message.

    >>> output_messages({"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]})
    '[{"finish_reason":"stop","parts":[{"content":"hi","type":"text"}],"role":"assistant"}]'
    """
    choices = response.get("choices") if isinstance(response, Mapping) else None
    if isinstance(choices, list) and all(isinstance(one, Mapping) for one in choices):
        return dump(
            [
                {**_message(one.get("message"), "assistant"), "finish_reason": one.get("finish_reason") or "stop"}
                for one in choices
            ],
            _NO_LIMITS,
        )
    reason = response.get("stop_reason") if isinstance(response, Mapping) else None
    return dump([{**_message(response, "assistant"), "finish_reason": reason or "stop"}], _NO_LIMITS)


def _message(one: Any, role: str) -> dict[str, Any]:
    known = isinstance(one, Mapping) and "content" in one
    content = one["content"] if known else one
    text = content if isinstance(content, str) else dump(content, _NO_LIMITS)
    return {
        "role": str(one.get("role") or role) if known else role,
        "parts": [{"type": "text", "content": text}],
    }
