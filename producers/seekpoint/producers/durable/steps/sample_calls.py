"""Samples: values that code cannot compute again. Each is taken once; the value or the failure is journaled.

They are numbered in the scope of the code that takes them, as all calls are.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.annotations import result_type
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.call_options import callable_of
from seekpoint.producers.durable.steps.step_calls import answered, failed, failure_of, journaled
from seekpoint.producers.durable.waits.timer_calls import moment_of
from seekpoint.schemas import bodies as b

if TYPE_CHECKING:
    from uuid import UUID

    from seekpoint.schemas.values.value_types import ValueType


T = TypeVar("T")


class SampleCalls(DurableCalls):
    """The calls ``now``, ``uuid``, ``random`` and ``sample`` of a process."""

    def now(self) -> Coroutine[Any, Any, datetime]:
        """Return the time in UTC, as of the first run of this call."""
        process = self._durable
        return _sample(process, "now", lambda: moment_of(process.clock.now_us()))

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        """Return a random UUID (version 4), the same in every run."""
        from uuid import uuid4

        return _sample(self._durable, "uuid", uuid4)

    def random(self) -> Coroutine[Any, Any, float]:
        """Return a random number in [0, 1), the same in every run."""
        return _sample(self._durable, "random", random.random)

    @overload
    def sample(
        self, name: str, call: Callable[[], Awaitable[T]], *, key: str | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def sample(self, name: str, call: Callable[[], T], *, key: str | None = None) -> Coroutine[Any, Any, T]: ...
    def sample(self, name: str, call: Callable[[], Any], *, key: str | None = None) -> Coroutine[Any, Any, Any]:
        """Return ``call()``: a file, a setting, anything that may change between runs. One acknowledgement.

        A plain function runs in a thread. It has one attempt: a failure is recorded as that of a step is, and every
        later run raises it. Raises what ``call`` raised, or ``StepFailed`` for an exception whose class is neither
        builtin nor registered; ``UnserializableValue``, ``LimitExceeded``, ``ReplayDivergence``.
        """
        process = self._durable
        place, kind = process.matcher.place("sample", name, "", key), result_type(call)
        return _recorded_outcome(process, place, kind) or process.in_order(
            place, _from_body, process, place, name, callable_of(call, name), kind
        )


def _sample(process: DurableProcess, name: str, take: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
    """Return a sample whose value is cheap: it is taken when the call is made."""
    place = process.matcher.place("sample", name)
    return _recorded_outcome(process, place) or process.in_order(place, recorded, process, place, name, "", take())


def _recorded_outcome(
    process: DurableProcess, place: CallPlace, kind: ValueType | None = None
) -> Coroutine[Any, Any, Any] | None:
    """Return the recorded value or failure of the sample at ``place``; None if it has to be taken."""
    record = place.record
    if record is None or record.status == "started":  # a failed one that was set aside
        return None
    if record.status == "failed":
        return process.in_order(place, failed, record, process, place)
    return process.in_order(place, answered, record, kind, process, place)


async def _from_body(
    process: DurableProcess, place: CallPlace, name: str, call: Callable[[], Any], kind: ValueType | None
) -> Any:
    failed_at = None if place.record is None else place.record.seq
    try:
        with process.matcher.inside(place, lenient_below_seq=failed_at):
            value = await run_body(process, call, (), {}, None, place.key)
        return await recorded(process, place, name, "", value, kind, call)
    except Exception as exc:
        from seekpoint.producers.durable.failures.recorded_failures import failure_text, is_failure

        if not is_failure(exc):
            raise
        failure = exc
    text = failure_text(failure, process.settings, process.limits)
    await process.append(b.Sampled(key=place.key, position=place.position, name=name, error=text))
    raise failure_of(process, place, failure, text)


async def recorded(
    process: DurableProcess,
    place: CallPlace,
    name: str,
    digest: str,
    value: Any,
    kind: ValueType | None = None,
    call: Callable[..., Any] | None = None,
) -> Any:
    """Journal ``value`` as the sample at ``place``; return what a replay will return, once it is acknowledged."""
    text, result = journaled(value, kind, place.key, process, call)
    await process.append(b.Sampled(key=place.key, position=place.position, name=name, digest=digest, value=text))
    return result
