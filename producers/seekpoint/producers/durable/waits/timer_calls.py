"""Wait for a moment that is journaled before the wait: a restart neither shifts the moment nor fires it early."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN_US_MAX = 3_155_760_000_000_000
"""A hundred years: a longer span is a mistake in the unit."""


class TimerCalls(DurableCalls):
    """The timer calls of a process."""

    def sleep(self, span: float | timedelta, *, key: str | None = None) -> Coroutine[Any, Any, None]:
        """Return once ``span`` (seconds, or a timedelta) has passed since this call was first made.

        The moment is journaled before the wait. The process is ``awaiting`` meanwhile. Raises ``Cancelled``.
        """
        process = self._durable
        span_us = microseconds(span, "sleep()")
        return _timer(process, "sleep", str(span_us), process.clock.now_us() + span_us, key)

    def sleep_until(self, when: datetime, *, key: str | None = None) -> Coroutine[Any, Any, None]:
        """Return at ``when``, a datetime with a time zone; at once if that is past. Compute it from ``await now()``."""
        process = self._durable
        if not isinstance(when, datetime) or when.utcoffset() is None:
            raise Refused(
                "sleep_until() needs a datetime with a time zone", process_id=process.process_id, found=repr(when)[:80],
                hint="datetime(..., tzinfo=timezone.utc), or await process.now() plus a timedelta",
            )  # fmt: skip
        due_us = (when - _EPOCH) // timedelta(microseconds=1)
        return _timer(process, "sleep_until", str(due_us), due_us, key)


def moment_of(time_us: int) -> datetime:
    """Return the datetime in UTC of a time in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)


def microseconds(span: float | timedelta, what: str) -> int:
    """Return a span of time in microseconds, rounded up, at least 0. Raises ``Refused`` if it is none, or too long."""
    if isinstance(span, timedelta):
        span_us = span // timedelta(microseconds=1)
    elif isinstance(span, int | float) and not isinstance(span, bool) and abs(span) * 1_000_000 <= _SPAN_US_MAX:
        span_us = -int(-span * 1_000_000 // 1)
    else:
        span_us = _SPAN_US_MAX + 1
    if span_us > _SPAN_US_MAX:
        raise Refused(f"{what} needs a span of time: seconds, or a timedelta", found=repr(span)[:80])
    return max(span_us, 0)


def _timer(
    process: DurableProcess, name: str, argument: str, due_us: int, key: str | None
) -> Coroutine[Any, Any, None]:
    digest = text_digest(name, argument)
    place = process.matcher.place("timer", name, digest, key)
    if place.record is not None:
        if place.record.status == "succeeded":
            return process.in_order(place, _recorded)
        return process.in_order(place, _wait, process, place, place.record.facts["fires_at_us"])
    return process.in_order(place, _set, process, place, name, digest, due_us)


async def _recorded() -> None:
    """Return at once: the timer fired in an earlier run."""


async def _set(process: DurableProcess, place: CallPlace, name: str, digest: str, due_us: int) -> None:
    body = b.TimerSet(key=place.key, position=place.position, name=name, digest=digest, fires_at_us=due_us)
    if due_us <= process.clock.now_us():
        process.send(body)
    else:
        await process.append(body)
    await _wait(process, place, due_us)


async def _wait(process: DurableProcess, place: CallPlace, due_us: int) -> None:
    """Wait until ``due_us``, and return once that is journaled. A run that resumes in between only journals it."""
    if process.clock.now_us() < due_us:
        await process.waiting.until(lambda: None, due_us)
    await process.append(b.TimerFired(key=place.key, fired_at_us=max(process.clock.now_us(), due_us)))
