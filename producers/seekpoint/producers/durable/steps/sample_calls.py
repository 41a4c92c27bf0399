"""Samples: what code cannot compute again. Taken once, acknowledged, and the same for every run that follows.

They count per run, in their scope, as all calls do: never per interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.body_runner import run_body
from seekpoint.producers.durable.steps.step_calls import answered, dumped
from seekpoint.producers.durable.steps.terms import callable_of
from seekpoint.producers.durable.waits.timer_calls import moment_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from uuid import UUID


__all__ = ["SampleCalls", "recorded"]

T = TypeVar("T")


class SampleCalls(DurableCalls):
    """What a process offers: ``now``, ``uuid``, ``random``, ``sample``."""

    def now(self) -> Coroutine[Any, Any, datetime]:
        """The time, in UTC, as it was when this call was first made."""
        process = self._durable
        return _sample(process, "now", lambda: moment_of(process.clock.now_us()))

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        """A random UUID (version 4), the same in every run."""
        from uuid import uuid4

        return _sample(self._durable, "uuid", uuid4)

    def random(self) -> Coroutine[Any, Any, float]:
        """A random number in [0, 1), the same in every run."""
        return _sample(self._durable, "random", random.random)

    @overload
    def sample(
        self, name: str, call: Callable[[], Awaitable[T]], *, key: str | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def sample(self, name: str, call: Callable[[], T], *, key: str | None = None) -> Coroutine[Any, Any, T]: ...
    def sample(self, name: str, call: Callable[[], Any], *, key: str | None = None) -> Coroutine[Any, Any, Any]:
        """What ``call()`` gives: a file, a setting, anything that may be another the next time. One acknowledgement.

        A plain function runs in a thread. One that raises gave no sample, and is called again by the next run: where
        the failure itself matters, use a step. Raises ``UnserializableValue``, ``LimitExceeded``, ``ReplayDivergence``.
        """
        process = self._durable
        place = process.matcher.place("sample", name, "", key)
        if place.record is not None:
            return process.in_order(place, answered, place.record)
        return process.in_order(place, _from_body, process, place, name, callable_of(call, name))


def _sample(process: DurableProcess, name: str, take: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
    """A sample that costs nothing to take: taken now, in the order of the program."""
    place = process.matcher.place("sample", name)
    if place.record is not None:
        return process.in_order(place, answered, place.record)
    return process.in_order(place, recorded, process, place, name, "", take())


async def _from_body(process: DurableProcess, place: CallPlace, name: str, call: Callable[[], Any]) -> Any:
    with process.matcher.inside(place):
        value = await run_body(process, call, (), {}, None, place.key)
    return await recorded(process, place, name, "", value)


async def recorded(process: DurableProcess, place: CallPlace, name: str, digest: str, value: Any) -> Any:
    """Journal ``value`` as the sample at ``place``; what a replay will get, once that is acknowledged."""
    text = dumped(value, place.key, process)
    await process.append(b.Sampled(key=place.key, position=place.position, name=name, digest=digest, value=text))
    return load(text)
