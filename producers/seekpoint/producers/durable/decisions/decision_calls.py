"""Make decisions: model calls that are recorded with request, response, tool calls, usage and cost.

The digest covers the whole request: messages, model, tools, schema and every sampling option. A replay returns the
recorded response. A request that has changed is a divergence that names the first difference.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import partial, wraps
from typing import Any

import msgspec

from seekpoint.producers.durable.call_spans import spanned
from seekpoint.producers.durable.decisions.prompts import Prompts, first_difference, requests_in
from seekpoint.producers.durable.decisions.usage import Usage, model_in, usage_in
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_calls import (
    Attempts,
    Work,
    answered,
    counted_step,
    default_retry,
    dumped,
    failed,
)
from seekpoint.producers.durable.steps.terms import callable_of, name_of, retry_of, seconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import InvalidSetting, ReplayDivergence
from seekpoint.schemas.values.json_values import dump, load

__all__ = ["DecisionCalls", "plain", "tool_calls_in"]

logger = logging.getLogger("seekpoint.producers")

_MODEL_CALL: Mapping[str, int] = {"model_calls": 1}
_TOOL_CALL: Mapping[str, int] = {"tool_calls": 1}
_NO_MORE = object()


class DecisionCalls(DurableCalls):
    """The model and tool calls of a process."""

    _prompts: Prompts | None = None

    def decide(
        self,
        name: str,
        call: Callable[..., Any],
        request: Any,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        usage: Callable[[Any], Usage | None] | Usage | None = None,
        policy: str | None = None,
        estimate: Mapping[str, Any] | None = None,
        on_chunk: Callable[[Any], object] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Call a model once: ``call(request)``. Later runs get the recorded response.

        A stream is recorded whole: the response is the list of its chunks. ``on_chunk`` gets each chunk as it comes,
        not in a replay. Responses of the common clients become plain values. ``usage`` reads the usage of a response
        whose shape ``usage_in`` does not know; the node's ``prices`` give the cost. An unknown usage or cost is None,
        never 0; if ``usage`` raises, the response is recorded all the same. ``policy`` is the version of prompts and
        rules in force, by default the version of the agent. The budget admits ``estimate`` before the call:
        ``{"usd": "0.10", "tokens": 4000}``.

        Without ``retry`` it is retried as a step is, and the budget is charged for each attempt.

        Raises the exception of ``call``, and ``BudgetExceeded``. Raises ``ReplayDivergence`` as ``step`` does; of kind
        ``prompt`` if the request differs from the recorded one.
        """
        process = self._durable
        text = arguments_text((request,), {}, process.limits)
        digest = text_digest(name, text)
        try:
            place = process.matcher.place("decision", name, digest, key)
        except ReplayDivergence as exc:
            if exc.kind != "prompt":
                raise
            return _raise_difference(process, exc, request)
        record = place.record
        if record is not None:
            if record.status == "succeeded":
                return process.in_order(place, answered, record)
            if record.status == "failed":
                return process.in_order(place, failed, record, process, place)
        work = Work(
            name, digest, text, callable_of(call, name), (request,), {},
            retry_of(retry, default_retry(process)), seconds(timeout), estimate, _MODEL_CALL,
        )  # fmt: skip
        _check_usage(usage)
        if self._prompts is None:
            self._prompts = Prompts()
        agent = process.options.agent
        policy = policy if policy is not None or agent is None else agent.version
        attempts = _Attempts(process, place, work, prompts=self._prompts, policy=policy, usage=usage, on_chunk=on_chunk)
        return process.in_order(place, spanned(process, "decision", name, place, request, attempts.through))

    def wrap_model(self, call: Callable[..., Any], name: str = "model", **how: Any) -> Callable[..., Any]:
        """Return a function for a framework that owns the loop: each call of it is a decision.

        The function takes options or one request. ``client = process.wrap_model(openai.chat.completions.create)``;
        ``how`` are options of ``decide``.
        """

        @wraps(call)
        async def decide(*arguments: Any, **options: Any) -> Any:
            if len(arguments) == 1 and not options:
                return await self.decide(name, call, arguments[0], **how)
            request = {**({"arguments": list(arguments)} if arguments else {}), **options}
            return await self.decide(name, lambda _: call(*arguments, **options), request, **how)

        return decide

    def wrap_tool(
        self,
        call: Callable[..., Any],
        name: str | None = None,
        *,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
    ) -> Callable[..., Any]:
        """Return a function for a framework that owns the loop: each call of it is a step that is a tool call."""
        tool = name or name_of(call)

        @wraps(call)
        async def call_tool(*arguments: Any, **options: Any) -> Any:
            return await self.tool(tool, call, *arguments, retry=retry, timeout=timeout, **options)

        return call_tool

    def tool(
        self,
        name: str,
        call: Callable[..., Any],
        *arguments: Any,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Make a step that counts as a tool call in budgets; else as ``step``."""
        process = self._durable
        return counted_step(process, name, call, arguments, options, _TOOL_CALL, key, retry, timeout)

    def policy_is(self, version: str) -> bool:
        """Whether the process began under ``version`` of its agent: for code that changes while runs are in flight.

        True also without an agent.
        """
        process = self._durable
        began = process.written.agent or process.options.agent  # the first entry may not be acknowledged yet
        return began is None or began.version == version


class _Attempts(Attempts):
    """The attempts of one decision that is not recorded, or in doubt."""

    prompts: Prompts = msgspec.field(default_factory=Prompts)
    policy: str | None = None
    usage: Callable[[Any], Usage | None] | Usage | None = None
    on_chunk: Callable[[Any], object] | None = None

    def _start(self) -> float:
        process, place, work = self.process, self.place, self.work
        began = process.clock.monotonic()
        written = self.prompts.shortened(place.key, work.arguments[0], process.limits)
        process.send(
            b.DecisionStarted(
                key=place.key, position=place.position, name=work.name, digest=work.digest, request=written.text,
                shared_with=written.shared_with, shared_messages=written.shared_messages, policy=self.policy,
                attempt=self.attempt, started_at_us=process.clock.now_us(), estimate=self._estimate(),
            )
        )  # fmt: skip
        return began

    async def _whole(self, answer: Any) -> Any:
        """Return a stream as a list of its chunks, a blocking one read in a thread; any other value as it is."""
        if isinstance(answer, AsyncIterable):
            return [self._seen(plain(chunk)) async for chunk in answer]
        if isinstance(answer, Iterator):
            pull, chunks = partial(next, answer, _NO_MORE), []
            while (chunk := await self.process.in_body_thread(pull)) is not _NO_MORE:
                chunks.append(self._seen(plain(chunk)))
            return chunks
        return plain(answer)

    def _seen(self, chunk: Any) -> Any:
        if self.on_chunk is not None:
            self.on_chunk(chunk)
        return chunk

    async def _succeed(self, value: Any, began: float) -> Json:
        text = dumped(value, self.place.key, self.process)
        usage = self._usage_of(value)
        request = self.work.arguments[0]
        requested = request.get("model") if isinstance(request, Mapping) else None
        model = model_in(value) or (requested if isinstance(requested, str) else None)
        prices = self.process.session.prices
        cost = None if prices is None else prices.cost(model, usage)
        calls = tool_calls_in(value)
        await self._end(
            "succeeded", began, response=text, model=model, tool_calls=None if calls is None else dump(calls),
            usage=None if usage is None else dump(usage.to_dict()),
            cost_usd=None if cost is None else format(cost, "f"),
        )  # fmt: skip
        return text

    def _usage_of(self, value: Any) -> Usage | None:
        try:
            found = self.usage(value) if callable(self.usage) else self.usage or usage_in(value)
            if found is None or isinstance(found, Usage):
                return found
            logger.warning("%s: usage= returned no Usage, but %s", self.place.key, type(found).__name__)
        except Exception as exc:  # of the user's function: another model call would cost again, and fail again
            logger.warning("%s: its usage cannot be read: %s", self.place.key, error_line(exc, self.process.settings))
        return None

    async def _end(self, outcome: str, began: float, **more: Any) -> int:
        now_us, duration_s = self.process.clock.now_us(), self.process.clock.monotonic() - began
        made = b.DecisionMade(
            key=self.place.key, attempt=self.attempt, outcome=outcome, ended_at_us=now_us,
            duration_us=max(0, round(duration_s * 1_000_000)), **more,
        )  # fmt: skip
        return (await self.process.append(made)).seq


def _check_usage(usage: object) -> None:
    if not (usage is None or callable(usage) or isinstance(usage, Usage)):
        raise InvalidSetting(
            "usage= is a Usage, or a function of the response that returns one", usage=repr(usage)[:80]
        )


async def _raise_difference(process: DurableProcess, error: ReplayDivergence, request: Any) -> Any:
    """Raise ``error`` with the first difference of the requests, if the journal still has the recorded one."""
    if error.asks is not None:  # the same error as of an earlier call, which has its difference
        raise error
    key, text = error.key, dump(plain(request), process.limits)
    error.asks = b.DecisionStarted(request=text)
    try:
        found = process.session.entries(process.process_id, kinds=[b.DecisionStarted.KIND])
        recorded = (await requests_in(one.entry async for one in found)).get(str(key))
    except Exception:  # the error is useful without the difference
        recorded = None
    difference = None if recorded is None else first_difference(recorded, load(text))
    if difference is not None:
        error.difference = difference
    raise error


def plain(value: Any) -> Any:
    """Return a client's response as plain values, by its ``model_dump`` or ``to_dict``; any other value as it is."""
    for name in ("model_dump", "to_dict"):
        convert = getattr(value, name, None)
        if callable(convert) and not isinstance(value, type):
            return convert(mode="json") if name == "model_dump" else convert()
    return value


def tool_calls_in(answer: Any) -> list[Any] | None:
    """Return the tool calls of an OpenAI- or Anthropic-shaped response; None if there are none."""
    if not isinstance(answer, Mapping):
        return None
    found: list[Any] = []
    for choice in _list_in(answer, "choices"):
        message = choice.get("message") if isinstance(choice, Mapping) else None
        found += _list_in(message, "tool_calls") if isinstance(message, Mapping) else ()
    for name, kind in (("content", "tool_use"), ("output", "function_call")):
        parts = _list_in(answer, name)
        found += [part for part in parts if isinstance(part, Mapping) and part.get("type") == kind]
    return found or None


def _list_in(answer: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list of that name; empty if the value is no list."""
    found = answer.get(name)
    return list(found) if isinstance(found, list | tuple) else []
