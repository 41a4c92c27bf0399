"""Run a decision that is not recorded: call the model, read the usage of its response, and record both."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from seekpoint.producers.durable.decisions.large_texts import (
    has_tool_urls,
    is_too_large,
    with_references,
    without_tool_urls,
)
from seekpoint.producers.durable.decisions.prompts import Prompts, requests_in
from seekpoint.producers.durable.decisions.usage import Usage, model_in, summary_in, usage_in
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.steps.step_calls import Attempts, journaled
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import InvalidSetting, InvalidValue, LimitExceeded, ReplayDivergence, UnserializableValue
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.decisions.decision_streams import LiveChunks
    from seekpoint.schemas.values.attachment_ref import Ref

logger = logging.getLogger("seekpoint.producers")

_NO_MORE = object()
_CALLS = (("content", "type", "tool_use"), ("output", "type", "function_call"), ("parts", "part_kind", "tool-call"))
"""Where a response has its parts, and which of these are tool calls."""


class DecisionAttempts(Attempts):
    """The attempts of one decision that is not recorded, or in doubt."""

    request: Any = None
    """The request; a model as the dict of its members."""
    prompts: Prompts = msgspec.field(default_factory=Prompts)
    policy: str | None = None
    usage: Callable[[Any], Usage | None] | Usage | None = None
    on_chunk: Callable[[Any], object] | None = None
    live: LiveChunks | None = None
    """Where the chunks go that are read while the decision runs; None if nobody reads them before it ends."""
    given: list[Any] = msgspec.field(default_factory=list)
    """The chunks that were handed out while the stream was read, as JSON values."""
    given_bytes: int = 0
    given_items: int = 0

    async def through(self) -> Any:
        """Return the response once its entry is acknowledged. Large texts of the request are attached before."""
        process, text = self.process, self.work.arguments_json
        is_large = is_too_large(text, process.limits)
        if is_large or has_tool_urls(text):
            self.request = without_tool_urls(load(text)[0])
        if is_large:
            attached: dict[Ref, bytes] = {}
            self.request = with_references(self.request, process.process_id, process.limits, attached)
            for ref, data in attached.items():
                await process.session.attach(ref, data)
        return await super().through()

    def _start(self) -> float:
        process, place, work = self.process, self.place, self.work
        began, self.spent = process.clock.monotonic(), {}
        written = self.prompts.shortened(place.key, self.request, process.limits)
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
        plain = _plain if self.work.kind is None else _as_it_is  # a model is rebuilt by its annotation
        pull: Callable[[], Coroutine[Any, Any, Any]]
        if isinstance(answer, AsyncIterable):
            source: Any = aiter(answer)
            pull = partial(_next_of, source)
        elif isinstance(answer, Iterator):
            source = answer
            pull = partial(self._in_thread, partial(next, answer, _NO_MORE))
        elif self.live is not None:
            raise InvalidSetting("the answer of a stream is an iterator of its chunks", found=type(answer).__name__)
        else:
            return plain(answer)
        chunks: list[Any] = []
        while (chunk := await pull()) is not _NO_MORE:
            chunks.append(self._seen(plain(chunk)))
            if self.live is not None and self.live.is_closed:
                await self._close(source)
                break
        return chunks

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await (await self.process.body_thread(self.place.key))(call)

    def _seen(self, chunk: Any) -> Any:
        if self.on_chunk is not None:
            self.on_chunk(chunk)
        if self.live is not None and not self.live.is_held:
            self._hand_out(self.live, chunk)
        return chunk

    def _hand_out(self, live: LiveChunks, chunk: Any) -> None:
        """Hand out a chunk as later runs get it, while the record of a failure has room for it."""
        try:
            text, made = journaled([chunk], self.work.kind, self.place.key, self.process)
        except (InvalidValue, LimitExceeded, UnserializableValue):  # the end of the stream raises it
            live.is_held = True
            return
        limits = self.process.limits
        self.given_bytes += len(text.encode())
        self.given_items += text.count(",") + text.count("[") + text.count("{")  # at least as many as there are
        live.is_held = self.given_bytes > limits.record_bytes // 2 or self.given_items > limits.items
        if not live.is_held:
            self.given += load(text)
            live.put(made[0])

    async def _close(self, source: Any) -> None:
        """Close a stream that is not read to its end."""
        assert self.live is not None
        self.live.is_cut = True
        if hasattr(source, "aclose"):
            await source.aclose()
        elif hasattr(source, "close"):
            await self._in_thread(source.close)

    async def _fail(self, error: Exception, began: float) -> None:
        if self.live is not None and self.live.is_begun:
            self.attempts_max = self.attempt  # the code has seen a part of this attempt
        await super()._fail(error, began)

    async def _succeed(self, value: Any, began: float) -> Any:
        request = self.request
        requested = request.get("model") if isinstance(request, Mapping) else None
        asked = requested if isinstance(requested, str) else None
        try:
            text, result = journaled(value, self.work.kind, self.place.key, self.process, self.work.call)
        except (InvalidValue, LimitExceeded, UnserializableValue):  # it was paid for
            self._note_spent(asked, self._usage_of(value, value))
            raise
        if self.work.kind is not None:
            value = load(text)
        self._note_spent(model_in(value) or asked, self._usage_of(value, result))
        calls = tool_calls_in(value)
        await self._record(began, response=text, tool_calls=None if calls is None else dump(calls))
        if self.live is not None:
            for chunk in result[len(self.given) :]:
                self.live.put(chunk)
        return result

    def _note_spent(self, model: str | None, usage: Usage | None) -> None:
        prices = self.process.session.prices
        cost = None if prices is None else prices.cost(model, usage)
        self.spent = {
            "model": model, "usage": None if usage is None else dump(usage.to_dict()),
            "cost_usd": None if cost is None else format(cost, "f"),
        }  # fmt: skip

    def _usage_of(self, value: Any, result: Any) -> Usage | None:
        """Return the usage in ``value``, the response as plain values; a function reads it from what the code gets."""
        if self.live is not None and self.live.is_cut:  # what a model counted so far is not what it will count
            return None
        try:
            found = self.usage(result) if callable(self.usage) else self.usage or usage_in(value)
            if found is None or isinstance(found, Usage):
                return found
            logger.warning("%s: usage= returned no Usage, but %s", self.place.key, type(found).__name__)
        except Exception as exc:  # of the user's function: another model call would cost again, and fail again
            logger.warning("%s: its usage cannot be read: %s", self.place.key, error_line(exc, self.process.settings))
        return None

    async def _end(self, outcome: str, began: float, **more: Any) -> int:
        now_us, duration_s = self.process.clock.now_us(), self.process.clock.monotonic() - began
        if outcome == "failed" and self.given:
            more["response"] = dump(self.given, self.process.limits)
        made = b.DecisionMade(
            key=self.place.key, attempt=self.attempt, outcome=outcome, ended_at_us=now_us,
            duration_us=max(0, round(duration_s * 1_000_000)), **self.spent, **more,
        )  # fmt: skip
        return (await self.process.append(made)).seq


def check_usage(usage: object) -> None:
    """Raise ``InvalidSetting`` for a ``usage=`` that is neither a ``Usage`` nor a function."""
    if not (usage is None or callable(usage) or isinstance(usage, Usage)):
        raise InvalidSetting(
            "usage= is a Usage, or a function of the response that returns one", usage=repr(usage)[:80]
        )


async def raise_difference(process: DurableProcess, error: ReplayDivergence, request: Any) -> Any:
    """Raise ``error`` with the first difference of the requests, if the journal still has the recorded one."""
    if error.asks is not None:  # the same error as of an earlier call, which has its difference
        raise error
    key, asked = error.key, without_tool_urls(load(dump(request, process.limits, True)))
    error.asks = b.DecisionStarted(request=dump(asked, process.limits))
    try:
        found = process.session.entries(process.process_id, kinds=[b.DecisionStarted.KIND])
        recorded = (await requests_in(one.entry async for one in found)).get(str(key))
    except Exception:  # the error is useful without the difference
        recorded = None
    from seekpoint.producers.durable.replay.value_differences import first_difference

    difference = None
    if recorded is not None:  # a large text of one may be a reference in the other
        of = partial(with_references, process_id=process.process_id, limits=process.limits, attached={})
        difference = first_difference(of(without_tool_urls(recorded)), of(asked))
    if difference is not None:
        error.difference = difference
    raise error


async def _next_of(source: AsyncIterator[Any]) -> Any:
    return await anext(source, _NO_MORE)


def _as_it_is(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """Return a client's response as plain values, by its ``model_dump`` or ``to_dict``; any other value as it is."""
    for name in ("model_dump", "to_dict"):
        convert = getattr(value, name, None)
        if callable(convert) and not isinstance(value, type):
            return convert(mode="json") if name == "model_dump" else convert()
    return value


def tool_calls_in(answer: Any) -> list[Any] | None:
    """Return the tool calls of a response of OpenAI's, Anthropic's, Google's or Pydantic AI's shape; None without any.

    Of a stream, those in the summary with which it ends.
    """
    whole, answer = answer, summary_in(answer)
    if not isinstance(answer, Mapping):
        return None
    found = _list_in(answer, "tool_calls") if answer is not whole else []
    for choice in _list_in(answer, "choices"):
        message = choice.get("message") if isinstance(choice, Mapping) else None
        found += _list_in(message, "tool_calls") if isinstance(message, Mapping) else ()
    for name, member, kind in _CALLS:
        parts = _list_in(answer, name)
        found += [part for part in parts if isinstance(part, Mapping) and part.get(member) == kind]
    for candidate in _list_in(answer, "candidates"):
        content = candidate.get("content") if isinstance(candidate, Mapping) else None
        for part in _list_in(content, "parts") if isinstance(content, Mapping) else ():
            call = (part.get("functionCall") or part.get("function_call")) if isinstance(part, Mapping) else None
            found += [call] if isinstance(call, Mapping) else ()
    return found or None


def _list_in(answer: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list of that name; empty if the value is no list."""
    found = answer.get(name)
    return list(found) if isinstance(found, list | tuple) else []
