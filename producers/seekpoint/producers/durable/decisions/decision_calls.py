"""Make decisions: model calls that are recorded with request, response, tool calls, usage and cost.

The digest covers the whole request: messages, model, tools, schema and every sampling option. A replay returns the
recorded response. A request that has changed is a divergence that names the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

from seekpoint.producers.durable.durable_process import DurableCalls
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.steps.annotations import result_type
from seekpoint.producers.durable.steps.call_options import callable_of, check_options, name_of, retry_of, seconds
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_calls import (
    Work,
    answered,
    as_step_call,
    counted_step,
    default_retry,
    failed,
    own_step,
)
from seekpoint.schemas.errors import ReplayDivergence

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.producers.durable.budgets.step_usage import Used
    from seekpoint.producers.durable.decisions.decision_streams import DecisionStream, LiveChunks
    from seekpoint.producers.durable.decisions.prompts import Prompts
    from seekpoint.producers.durable.decisions.stream_signatures import StreamCall
    from seekpoint.producers.durable.decisions.usage import Usage
    from seekpoint.producers.durable.steps.call_signatures import DecideCall, DecisionOptions
    from seekpoint.schemas.values.value_types import ValueType

_STREAM_OPTIONS = ("key", "retry", "timeout", "usage", "policy", "estimate")
_OPTIONS = (*_STREAM_OPTIONS, "on_chunk")
_MODEL_CALL: Mapping[str, int] = {"model_calls": 1}
_TOOL_CALL: Mapping[str, int] = {"tool_calls": 1}


def _as_decide_call(call: Callable[..., Any]) -> DecideCall:
    """Return ``call`` as it is: for type checkers it has the signature of a decision."""
    return cast("DecideCall", call)


def _as_stream_call(call: Callable[..., Any]) -> StreamCall:
    return cast("StreamCall", call)


class DecisionCalls(DurableCalls):
    """The model and tool calls of a process."""

    _prompts: Prompts | None = None

    @_as_decide_call
    def decide(
        self,
        name: str,
        call: Callable[..., Any],
        request: Any,
        **how: Unpack[DecisionOptions],
    ) -> Coroutine[Any, Any, Any]:
        """Call a model once: ``call(request)``. Later runs get the recorded response.

        A stream is recorded whole: the response is the list of its chunks. ``on_chunk`` gets each chunk as it comes,
        not in a replay. A response is rebuilt as the model that the annotation of ``call`` names; without one,
        responses of the common clients become plain values. ``usage`` reads the usage of a response
        whose shape ``usage_in`` does not know; the node's ``prices`` give the cost. An unknown usage or cost is None,
        never 0; if ``usage`` raises, the response is recorded all the same. ``policy`` is the version of prompts and
        rules in force, by default the version of the agent. The budget admits ``estimate`` before the call:
        ``{"usd": "0.10", "tokens": 4000}``.

        In a rerun on another model, a request that is an object with a ``model`` names that one.

        Without ``retry`` it is retried as a step is, and the budget is charged for each attempt.

        Raises the exception of ``call``, and ``BudgetExceeded``. Raises ``ReplayDivergence`` and ``InvalidValue`` as
        ``step`` does; of kind ``prompt`` if the request differs from the recorded one. Raises ``InvalidOption`` for an
        option that it has not.
        """
        check_options("decide", None, how, dict.fromkeys(_OPTIONS))
        return self._decided(name, call, request, result_type(call), **how)

    @_as_stream_call
    def decide_stream(
        self, name: str, call: Callable[..., Any], request: Any, **how: Unpack[DecisionOptions]
    ) -> DecisionStream:
        """Call a model whose answer is a stream; yield each chunk as it comes, later runs those of the record.

        ``async for chunk in process.decide_stream(name, call, request): ...``. It is one decision, as of ``decide``,
        with the same options without ``on_chunk``. The loop ends once the whole stream is recorded. A crash before that
        makes the call again, with other chunks: act on what came after the loop, not in it. ``aclose()`` stops the call
        at its next chunk, and records what came until then, with an unknown usage. An error after the first chunk is
        recorded with the chunks before it, and is not retried, because the code has seen a part of the stream. Chunks
        beyond half an entry come once the stream is recorded; while branches run (``gather``), all chunks do.
        """
        check_options("decide_stream", None, how, dict.fromkeys(_STREAM_OPTIONS))
        from seekpoint.producers.durable.decisions.decision_streams import DecisionStream, LiveChunks

        live, process = LiveChunks(), self._durable
        decision = self._decided(name, call, request, result_type(call), live=live, **how)
        return DecisionStream(live, decision, lambda: process.matcher.branch_task() is not None)

    def _decided(
        self,
        name: str,
        call: Callable[..., Any],
        request: Any,
        kind: ValueType | None,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        usage: Callable[[Any], Usage | None] | Usage | None = None,
        policy: str | None = None,
        estimate: Mapping[str, Any] | None = None,
        on_chunk: Callable[[Any], object] | None = None,
        live: LiveChunks | None = None,
    ) -> Coroutine[Any, Any, Any]:
        process = self._durable
        if process.model is not None:
            request = _on_model(request, process.model)
        text = arguments_text((request,), {}, process.limits)
        digest = text_digest(name, text)
        try:
            place = process.matcher.place("decision", name, digest, key)
        except ReplayDivergence as exc:
            if exc.kind != "prompt":
                raise
            from seekpoint.producers.durable.decisions.decision_runs import raise_difference

            return raise_difference(process, exc, request)
        record = place.record
        if record is not None:
            if live is not None and record.output is not None and record.status != "started":
                live.recorded = partial(answered, record, kind, process, place)
            if record.status == "succeeded":
                return process.in_order(place, answered, record, kind, process, place)
            if record.status == "failed":
                return process.in_order(place, failed, record, process, place)
        from seekpoint.producers.durable.call_spans import spanned
        from seekpoint.producers.durable.decisions.decision_runs import DecisionAttempts, check_usage
        from seekpoint.producers.durable.decisions.prompts import Prompts
        from seekpoint.schemas.values.models import members_of

        work = Work(
            name, digest, text, callable_of(call, name), (request,), {},
            retry_of(retry, default_retry(process)), seconds(timeout), estimate, _MODEL_CALL, kind,
        )  # fmt: skip
        check_usage(usage)
        if self._prompts is None:
            self._prompts = Prompts()
        agent = process.options.agent
        policy = policy if policy is not None or agent is None else agent.version
        asked = members_of(request)
        attempts = DecisionAttempts(
            process, place, work, request=asked, prompts=self._prompts, policy=policy, usage=usage, on_chunk=on_chunk,
            live=live,
        )  # fmt: skip
        return process.in_order(place, spanned(process, "decision", name, place, asked, attempts.through))

    def wrap_model(
        self, call: Callable[..., Any], name: str = "model", **how: Unpack[DecisionOptions]
    ) -> Callable[..., Any]:
        """Return a function for a framework that owns the loop: each call of it is a decision.

        The function takes options or one request, whose ``model`` a rerun may replace.
        ``client = process.wrap_model(openai.chat.completions.create)``; ``how`` are options of ``decide``.
        """
        check_options("wrap_model", None, how, dict.fromkeys(_OPTIONS))
        kind = result_type(call)

        @wraps(call)
        async def decide(*arguments: Any, **options: Any) -> Any:
            if len(arguments) == 1 and not options:
                return await self._decided(name, call, arguments[0], kind, **how)
            request = {**({"arguments": list(arguments)} if arguments else {}), **options}

            def called(asked: Mapping[str, Any]) -> Any:
                """Call with the options of the request: a rerun may name another model in it."""
                return call(*arguments, **{option: asked[option] for option in options})

            return await self._decided(name, called, request, kind, **how)

        return decide

    def wrap_tool(
        self,
        call: Callable[..., Any],
        name: str | None = None,
        *,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
    ) -> Callable[..., Any]:
        """Return a function for a framework that owns the loop: each call of it is a step that is a tool call.

        All options of that function are those of ``call``.
        """
        tool = name or name_of(call)

        @wraps(call)
        async def call_tool(*arguments: Any, **options: Any) -> Any:
            check_options(f"the tool {tool}", call, options)
            return await own_step(self._durable, tool, call, arguments, options, _TOOL_CALL, None, retry, timeout)

        return call_tool

    @as_step_call
    def tool(
        self,
        name: str,
        call: Callable[..., Any],
        /,
        *arguments: Any,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        usage: Used = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Make a step that counts as a tool call in budgets; else as ``step``."""
        process = self._durable
        return counted_step(process, name, call, arguments, options, _TOOL_CALL, key, retry, timeout, usage)

    def policy_is(self, version: str) -> bool:
        """Whether the process began under ``version`` of its agent: for code that changes while runs are in flight.

        True also without an agent.
        """
        process = self._durable
        began = process.written.agent or process.options.agent  # the first entry may not be acknowledged yet
        return began is None or began.version == version


def _on_model(request: Any, model: str) -> Any:
    """Return the request for another model; a request that names none as it is."""
    if isinstance(request, Mapping):
        return {**request, "model": model} if "model" in request else request
    from seekpoint.schemas.values.models import with_member

    return with_member(request, "model", model) if hasattr(request, "model") else request
