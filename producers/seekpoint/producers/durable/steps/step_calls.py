"""Steps: work that is done once. Its result or failure is recorded, and every replay gets it.

The start entry is sent without waiting; the end entry is awaited. So a step waits for one acknowledgement. The start is
sent when the body first waits for something; a body that never waits has one entry for both. A step that started and
did not end is in doubt: a resumed run executes it again, with the same idempotency key.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from types import BuiltinFunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.annotations import result_type, why_untyped
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.call_options import callable_of, check_options, retry_of, seconds
from seekpoint.producers.durable.steps.retries import TRANSIENT, Retry
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import LimitExceeded, ReplayDivergence, UnserializableValue
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.budgets.step_usage import Used
    from seekpoint.producers.durable.steps.call_signatures import StepCall
    from seekpoint.schemas.values.value_types import ValueType

_KEY_PARAMETER = "idempotency_key"
_HINT_UNRECORDED = (
    "every later run raises this again and does not repeat the call, retry_failed repeats it: let it return less, or "
    "attach the value in it and return the reference; a new journal may have larger limits"
)


def as_step_call(call: Callable[..., Any]) -> StepCall:
    """Return ``call`` as it is: for type checkers it has the signature of a step."""
    return cast("StepCall", call)


class StepCalls(DurableCalls):
    """The call ``step`` of a process."""

    @as_step_call
    def step(
        self, name: str, call: Callable[..., Any], /, *arguments: Any, key: str | None = None,
        retry: Retry | None = None, timeout: float | timedelta | None = None, usage: Used = None, **options: Any,
    ) -> Coroutine[Any, Any, Any]:  # fmt: skip
        """Run ``call(*arguments, **options)`` once; from then on its result or exception is recorded.

        It takes its place when it is called, not when it is awaited: ``gather`` two of them and they are ``a:1`` and
        ``a:2``. A plain function runs in a thread. ``timeout`` (seconds) is of one attempt; a thread is not stopped by
        it. Without ``retry`` it has three attempts where each fails with an error of a connection, a time-out or a
        server that is busy, and one for any other error; ``Retry(attempts=1)`` asks for one, ``@agent(retry_steps=)``
        says it for all steps of an agent. A callable with a parameter ``idempotency_key`` is handed the step's.

        ``usage`` is what an attempt that returns used, for budgets and ``costs``: amounts by dimension, as in
        ``{"usd": "0.02"}``, a ``Usage``, or a function of the result that returns one of these.

        ``key``, ``retry``, ``timeout`` and ``usage`` are never the function's: ``InvalidOption`` names an option that
        neither has, and one that both have (make the function a step of its own: ``@step``).

        What it returns is what a replay returns: rebuilt from the journal's text (dicts have their keys sorted), as the
        model that the annotation of ``call`` names. Raises what ``call`` raised; ``UnserializableValue``,
        ``InvalidValue`` or ``LimitExceeded`` if its result cannot be journaled (remembered too); ``StepFailed`` for an
        exception whose class is neither builtin nor registered (``register_failure``); ``ReplayDivergence``.
        """
        return counted_step(self._durable, name, call, arguments, options, {}, key, retry, timeout, usage)


def counted_step(
    process: DurableProcess, name: str, call: Callable[..., Any], arguments: tuple[Any, ...],
    options: Mapping[str, Any], counts: Mapping[str, int], key: str | None, retry: Retry | None,
    timeout: float | timedelta | None, usage: Used,
) -> Coroutine[Any, Any, Any]:  # fmt: skip
    """Return a step each attempt of which uses ``counts`` of a budget; ``step`` and ``tool`` are made of it."""
    if options or key is not None or retry is not None or timeout is not None or usage is not None:
        check_options("step", call, options, {"key": key, "retry": retry, "timeout": timeout, "usage": usage})
    return own_step(process, name, call, arguments, options, counts, key, retry, timeout, usage)


def own_step(
    process: DurableProcess, name: str, call: Callable[..., Any], arguments: tuple[Any, ...],
    options: Mapping[str, Any], counts: Mapping[str, int], key: str | None, retry: Retry | None,
    timeout: float | timedelta | None, usage: Used = None,
) -> Coroutine[Any, Any, Any]:  # fmt: skip
    """Return the step where ``options`` are known to be the function's."""
    if usage is not None:
        from seekpoint.producers.durable.budgets.step_usage import check_used

        check_used(usage)
    text = arguments_text(arguments, options, process.limits)
    digest, kind = text_digest(name, text), result_type(call)
    try:
        place = process.matcher.place("step", name, digest, key)
    except ReplayDivergence as exc:
        from seekpoint.producers.durable.replay.differences import changed

        return changed(process.session, exc, b.StepStarted(name=name, arguments=text))
    record = place.record
    if record is not None:
        if record.status == "succeeded":
            return process.in_order(place, answered, record, kind, process, place)
        if record.status == "failed":
            return process.in_order(place, failed, record, process, place)
    work = Work(
        name, digest, text, callable_of(call, name), arguments, options,
        retry_of(retry, default_retry(process)), seconds(timeout), counts=counts, kind=kind, usage=usage,
    )  # fmt: skip
    run = Attempts(process, place, work).through
    if process.tracer is not None:
        from seekpoint.producers.durable.call_spans import spanned

        run = spanned(process, "tool" if "tool_calls" in counts else "step", name, place, text, run)
    return process.in_order(place, run)


def default_retry(process: DurableProcess) -> Retry:
    """Return the retry of a step or decision that names none: the agent's, else that of transient errors."""
    agent = process.options.agent
    return TRANSIENT if agent is None or agent.retry_steps is None else agent.retry_steps


async def answered(record: Call, kind: ValueType | None, process: DurableProcess, place: CallPlace) -> Any:
    """Return the recorded result of a call, as a new object: of ``kind``, if its function's annotation names one."""
    text = record.output or "null"
    return load(text) if kind is None else rebuilt(text, kind, process, place.key)


async def failed(record: Call, process: DurableProcess, place: CallPlace) -> Any:
    """Raise the recorded failure of a call."""
    from seekpoint.producers.durable.failures.failed_calls import tagged
    from seekpoint.producers.durable.failures.recorded_failures import recorded_failure

    text = record.error or "{}"
    seq = process.written.entry_seq(record)
    error = recorded_failure(text, process_id=process.process_id, key=place.key, seq=seq)
    raise tagged(error, place.key, place.scope, recorded=text)


def failure_of(process: DurableProcess, place: CallPlace, error: Exception, text: Json) -> Exception:
    """Return the exception that the call at ``place`` raises now that ``error`` is recorded as ``text``."""
    from seekpoint.producers.durable.failures.failed_calls import tagged
    from seekpoint.producers.durable.failures.recorded_failures import failure_to_raise

    return tagged(failure_to_raise(error, text, place.key), place.key, place.scope)


class Work(NamedTuple):
    """The request of a call, and its attempts. A tuple, because every step makes one."""

    name: str
    digest: str
    arguments_json: Json
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    retry: Retry
    timeout_s: float | None
    estimate: Mapping[str, Any] | None = None
    """What an attempt is expected to use at most, by dimension of a budget."""
    counts: Mapping[str, int] = MappingProxyType({})
    """What every attempt uses, whatever its outcome: tool calls, model calls."""
    kind: ValueType | None = None
    """What the annotation of ``call`` says of its results; None if it names no model."""
    usage: Used = None
    """What an attempt of a step that returns has used, besides ``counts``."""


class Attempts(msgspec.Struct):
    """The attempts of one call that has no recorded outcome, until one ends it. This class does those of a step."""

    process: DurableProcess
    place: CallPlace
    work: Work
    attempt: int = 1
    attempts_max: int = 1
    began_at_us: int = 0
    """When this attempt began, by the wall clock."""
    is_unsaid: bool = False
    """Whether the start of this attempt was dropped, so that its end has to say it."""
    body: dict[str, Any] = {}
    """The options of the scope of the next attempt's body."""
    spent: dict[str, Any] = {}
    """What the answer says of its usage: recorded also if the answer cannot be."""

    async def through(self) -> Any:
        """Return the result once its entry is acknowledged."""
        process, work = self.process, self.work
        if self.place.record is None:
            self.attempts_max = work.retry.attempts
        else:
            await self._resume(self.place.record)
        while True:
            if process.ahead_budget is not None:
                from seekpoint.producers.durable.budgets.budget_checks import admit

                await admit(process, self.place, {**work.counts, **(work.estimate or {})})
            began = self._start()
            if process.written.owner_deaths:  # the body may end the program: then the journal has to name it
                await process.session.flush()
            try:
                result = await self._succeed(await self._call(), began)
            except Exception as exc:
                from seekpoint.producers.durable.failures.recorded_failures import is_failure

                if not is_failure(exc):
                    raise
                failure = exc
            else:
                process.matcher.ended(self.place)
                return result
            await self._fail(failure, began)  # here, so that what it raises has no context that a replay has not

    async def _succeed(self, value: Any, began: float) -> Any:
        """Record the result of the body; return it as each later run gets it."""
        if self.work.usage is not None:
            from seekpoint.producers.durable.budgets.step_usage import used_by

            self.spent = used_by(self.work.usage, value, self.place.key, self.process.settings)
        text, result = journaled(value, self.work.kind, self.place.key, self.process, self.work.call)
        await self._record(began, output=text)
        return result

    async def _record(self, began: float, **answer: Any) -> None:
        """Record the answer of the body. Raise ``LimitExceeded`` with the call's key where it does not fit."""
        try:
            await self._end("succeeded", began, **answer)
        except LimitExceeded as exc:
            key = self.place.key
            message = f"{key} was executed, but its result is too large to be recorded: {exc.message}"
            raise LimitExceeded(message, hint=_HINT_UNRECORDED, **{**exc.facts, "key": key}) from exc

    async def _resume(self, known: Call) -> None:
        """Continue to count the attempts of a step in doubt; wait what was left of the wait before the next one."""
        self.attempt = known.attempt + 1
        before = known.facts.get("attempts_before", 0)  # of a call that was set aside: it has all its attempts again
        self.attempts_max = max(self.attempt, before + self.work.retry.attempts)
        due_us = known.facts.get("retry_at_us") if known.error is not None else None
        if due_us is not None:
            await self._wait((due_us - self.process.clock.now_us()) / 1_000_000)
        if known.attempt > 1 or known.error is not None:
            self.body = {"lenient_below_seq": known.seq}

    async def _wait(self, wait_s: float) -> None:
        """Wait, but never longer than the retry may ask for, whatever the wall clock says."""
        await self.process.clock.sleep(min(max(wait_s, 0.0), 2 * self.work.retry.backoff_max_s))

    def _start(self) -> float:
        process, work = self.process, self.work
        self.began_at_us = process.clock.now_us()
        began = process.clock.monotonic()
        reserves = process.ahead_budget is not None and (work.estimate or work.counts)  # the next call has to see that
        if (
            reserves
            or process.written.owner_deaths
            or not process.hold(self.place.key, self._started, len(work.arguments_json))
        ):
            process.send(self._started())
        return began

    def _started(self) -> b.StepStarted:
        return b.StepStarted(key=self.place.key, attempt=self.attempt, **self._beginning())

    def _beginning(self) -> dict[str, Any]:
        """Return the fields that the start has, or the end of a step without a start of its own."""
        place, work = self.place, self.work
        return {
            "position": place.position, "name": work.name, "digest": work.digest, "arguments": work.arguments_json,
            "idempotency_key": self.process.idempotency_key(place.key, place.record), "started_at_us": self.began_at_us,
            "estimate": self._estimate(),
        }  # fmt: skip

    def _estimate(self) -> Json | None:
        work = self.work
        return dump({**work.counts, **(work.estimate or {})}) if work.estimate or work.counts else None

    async def _call(self) -> Any:
        process, place, work = self.process, self.place, self.work
        options = work.options
        if _KEY_PARAMETER not in options and _takes_key(work.call):
            options = {**options, _KEY_PARAMETER: process.idempotency_key(place.key, place.record)}
        with process.matcher.inside(place, **self.body):
            value = await run_body(process, work.call, work.arguments, options, work.timeout_s, place.key, self._whole)
        if place.record is not None and not self.body:
            await process.check_read(f"{place.key}/")
        return value

    async def _whole(self, answer: Any) -> Any:
        """Return the result of the call as it is."""
        return answer

    async def _end(self, outcome: str, began: float, **more: Any) -> int:
        process, spent = self.process, self.spent
        usage = {**self.work.counts, **spent.get("usage", {})} if spent else self.work.counts
        now_us, duration_s = process.clock.now_us(), process.clock.monotonic() - began
        self.is_unsaid = process.drop_held(self.place.key) or self.is_unsaid
        if self.is_unsaid:
            more |= self._beginning()
        ended = b.StepEnded(
            key=self.place.key, attempt=self.attempt, outcome=outcome, ended_at_us=now_us,
            duration_us=max(0, round(duration_s * 1_000_000)), usage=dump(dict(usage)) if usage else None,
            cost_usd=spent.get("cost_usd"), **more,
        )  # fmt: skip
        seq = (await process.append(ended)).seq
        self.is_unsaid, self.spent = False, {}
        return seq

    async def _fail(self, error: Exception, began: float) -> None:
        """Record the failure; return if there is another attempt, else raise what a replay will raise."""
        from seekpoint.producers.durable.failures.transient import retry_after_s

        process, retry = self.process, self.work.retry
        if not (self.attempt < self.attempts_max and retry.is_retryable(error)):
            text = self._failure(error)
            await self._end("failed", began, error=text)
            process.matcher.ended(self.place)
            raise failure_of(process, self.place, error, text)
        wait_s = retry.wait_s(self.attempt, random.random(), retry_after_s(error))
        due_us = process.clock.now_us() + round(wait_s * 1_000_000)
        seq = await self._end(
            "retry",
            began,
            error=self._failure(error, retryable=True),
            retry_at_us=due_us,
        )
        process.matcher.effects.forget_inside(self.place)
        await self._wait(wait_s)
        self.body = {"records": process.written.calls, "lenient_below_seq": seq}
        self.attempt += 1

    def _failure(self, error: Exception, **more: Any) -> Json:
        from seekpoint.producers.durable.failures.recorded_failures import failure_text

        return failure_text(error, self.process.settings, self.process.limits, **more)


def journaled(
    value: Any, kind: ValueType | None, key: str, process: DurableProcess, call: Callable[..., Any] | None = None
) -> tuple[Json, Any]:
    """Return the text of the result of ``call``, and what every later run gets.

    ``UnserializableValue``, ``LimitExceeded`` and ``InvalidValue`` name the call.
    """
    try:
        if kind is not None:
            return kind.checked(
                value, process.limits, f"the result of {key}", is_result=True, process_id=process.process_id, key=key
            )
        text = dump(value, process.limits)
        return text, load(text)
    except (UnserializableValue, LimitExceeded) as exc:
        facts = {**exc.facts, "process_id": process.process_id, "key": key}
        hint = exc.hint
        if kind is None and call is not None and isinstance(exc, UnserializableValue):
            why = why_untyped(call)
            if why is not None:
                hint = f"the annotation of its function cannot be evaluated: {why}; define the class in its module"
        raise type(exc)(f"the result of {key}: {exc.message}", hint=hint, **facts) from exc


def rebuilt(text: Json, kind: ValueType, process: DurableProcess, key: str) -> Any:
    """Return the recorded result of the call ``key``. ``RecordedValueInvalid`` names the call."""
    return kind.rebuilt(text, f"the result of {key}", process_id=process.process_id, key=key)


def _takes_key(call: Callable[..., Any]) -> bool:
    code = getattr(call, "__code__", None)
    if code is not None and not hasattr(call, "__wrapped__"):  # a signature costs twenty microseconds
        return _KEY_PARAMETER in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if isinstance(call, BuiltinFunctionType):  # their signature is parsed from a text, which takes long
        return _KEY_PARAMETER in (getattr(call, "__text_signature__", None) or "")
    try:
        return _KEY_PARAMETER in inspect.signature(call).parameters
    except (TypeError, ValueError):  # a callable that does not tell, as some of C's
        return False
