"""The delivery of records through Faust, without Faust: order, records that it skipped, restarts, and health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.consumers.kafka import faust_delivery
from seekpoint.consumers.kafka.faust_delivery import FaustDelivery
from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.log.log_ports import Batch, Record, Watermarks


class OneTopic:
    """A reader of one topic whose records begin at ``low``."""

    limits = DEFAULT_LIMITS

    def __init__(self, settings: Settings, low: int = 0, high: int = 5) -> None:
        self.settings = settings
        self.low, self.high = low, high

    def marks_of(self, topic: str, partition: int) -> Watermarks:
        return Watermarks(self.low, self.high)

    def read_topic(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Batch]:
        assert start >= self.low
        records = [Record(partition, offset, 1, b"k", b"%d" % offset) for offset in range(start, stop)]
        yield Batch(records, len(records), 0, stop)


def delivery_of(
    handled: list[int], settings: Settings | None = None, low: int = 0, clock: Callable[[], float] = time.monotonic
) -> FaustDelivery:
    async def handle(record: Record) -> None:
        handled.append(record.offset)

    reader: Any = OneTopic(settings or Settings(), low)
    health = ProgressHealth(10.0, clock)
    return FaustDelivery(reader, app_name="app", topic="recover", handle=handle, health=health)


def message(offset: int) -> Any:
    return SimpleNamespace(partition=0, offset=offset, timestamp=1.0, key=b"k", value=b"v")


@pytest.mark.parametrize(("low", "expected"), [(0, [1, 2, 3, 4]), (2, [2, 3, 4])])
async def test_records_that_faust_passed_over_are_handled_first(
    low: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member reads them itself, in order, from the first that still exists, and handles no record twice."""
    handled: list[int] = []
    delivery = delivery_of(handled, low=low)

    async def commit(record: Record) -> None:
        delivery._next[record.partition] = record.offset + 1

    monkeypatch.setattr(delivery, "_commit", commit)
    monkeypatch.setattr(delivery, "_committed", lambda _: 1)
    for offset in (0, 3, 2, 4):
        await delivery._take(message(offset))
    assert handled == expected
    assert delivery.passed_over == 3 - max(low, 1)
    await delivery.close()


async def test_the_lag_counts_the_partitions_that_are_still_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of all are asked for in one thread. What went to another member meanwhile is not waited for here."""
    delivery = delivery_of([])
    assigned, calls = [[0, 1, 2], [0, 2, 3]], list[object]()
    in_thread = delivery._in_thread

    async def noted(call: Callable[..., Any], *arguments: Any) -> Any:
        calls.append(call)
        return await in_thread(call, *arguments)

    monkeypatch.setattr(delivery._reader, "found_id", lambda kind: None, raising=False)
    monkeypatch.setattr(delivery, "_in_thread", noted)
    monkeypatch.setattr(delivery, "_app", SimpleNamespace(rebalancing=False))
    monkeypatch.setattr(delivery, "_assigned", lambda: assigned.pop(0))
    monkeypatch.setattr(delivery, "_committed", lambda partition: 1)
    delivery._next[2] = 3
    delivery.health.observe(0)
    await delivery._measure_lag()
    assert delivery.health.lag == (5 - 1) + (5 - 3)
    assert len(calls) == 2
    await delivery.close()


async def test_it_ends_as_soon_as_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its looks at Faust, too."""
    delivery, stop = delivery_of([]), asyncio.Event()
    monkeypatch.setattr(faust_delivery, "_LOOK_INTERVAL_S", 3600.0)
    monkeypatch.setattr(delivery, "_app", SimpleNamespace(should_stop=False))
    asyncio.get_running_loop().call_later(0.05, stop.set)
    running = asyncio.create_task(delivery.run(stop))
    done, _ = await asyncio.wait([running], timeout=30)
    assert done == {running}
    await delivery.close()


async def test_a_record_is_committed_after_it_was_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises leaves its record uncommitted."""
    committed: list[int] = []
    delivery = delivery_of([])

    async def commit(record: Record) -> None:
        committed.append(record.offset)

    async def refuse(record: Record) -> None:
        raise RuntimeError("not now")

    monkeypatch.setattr(delivery, "_commit", commit)
    monkeypatch.setattr(delivery, "_committed", lambda _: 0)
    await delivery._take(message(0))
    assert committed == [0]
    monkeypatch.setattr(delivery, "_handle", refuse)
    delivery._next[0] = 1
    with pytest.raises(RuntimeError, match="not now"):
        await delivery._take(message(1))
    assert committed == [0]
    await delivery.close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_health_is_progress() -> None:
    """The service is not well after thirty seconds without progress while work waits, or without a measured lag."""
    clock = Clock()
    health = ProgressHealth(30.0, clock)
    for now, lag, well in ((29.0, 5, True), (31.0, 5, False)):
        clock.now = now
        health.observe(lag)
        assert health.is_well is well
    health.progress()
    assert health.is_well
    clock.now = 90.0
    assert not health.is_well
    health.observe(0)
    assert health.is_well
    assert health.lag == 0


@pytest.mark.parametrize("failures", [1, 99])
async def test_a_start_that_kafka_refuses_for_a_moment_is_tried_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ``start_timeout_s`` it raises an error of Seekpoint, not of Faust."""
    delivery, starts = delivery_of([], Settings(start_timeout_s=0.03)), []

    class App:
        async def start(self) -> None:
            starts.append(self)
            if len(starts) <= failures:
                raise RuntimeError("all brokers are fenced")

        async def stop(self) -> None:
            raise RuntimeError("it never started")

    monkeypatch.setattr(delivery, "_make_app", lambda _: App())
    monkeypatch.setattr(faust_delivery, "_RETRY_S", 0.01)
    if failures == 1:
        await delivery._join({}, 0.03)
        assert len(starts) == 2
    else:
        with pytest.raises(JournalUnavailable, match="all brokers are fenced"):
            await delivery._join({}, 0.03)
        assert len(starts) > 1
    await delivery.close()


async def test_a_stalled_member_restarts_faust(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stalled member restarts Faust, but not while a record is handled, and not at every check."""
    clock = Clock()
    delivery, joined = delivery_of([], clock=clock), []

    async def join(_: Any) -> None:
        joined.append(clock.now)
        delivery._joined_at = time.monotonic()

    async def leave() -> None:
        """Do nothing: there is no app."""

    monkeypatch.setattr(delivery, "_config", {}, raising=False)
    monkeypatch.setattr(delivery, "_join", join)
    monkeypatch.setattr(delivery, "_leave", leave)
    delivery._joined_at = -1e9
    await delivery._restart_if_stalled()
    assert not joined
    clock.now = 11.0
    delivery._is_handling = True
    await delivery._restart_if_stalled()
    assert not joined
    delivery._is_handling = False
    await delivery._restart_if_stalled()
    await delivery._restart_if_stalled()
    assert joined == [11.0]
    await delivery.close()


async def test_a_restart_waits_for_kafka_however_long_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program goes on once Kafka answers, and ends at once where somebody stops it meanwhile."""
    clock = Clock()
    delivery, starts = delivery_of([], Settings(start_timeout_s=0.01), clock=clock), []

    class App:
        should_stop = False

        async def start(self) -> None:
            starts.append(self)
            raise RuntimeError("Kafka is away")

        async def stop(self) -> None: ...

    monkeypatch.setattr(delivery, "_make_app", lambda _: App())
    monkeypatch.setattr(delivery, "_app", App())
    monkeypatch.setattr(delivery, "_config", {}, raising=False)
    monkeypatch.setattr(faust_delivery, "_RETRY_S", 0.01)
    delivery._joined_at, clock.now = -1e9, 1e6
    stop = asyncio.Event()
    running = asyncio.ensure_future(delivery.run(stop))
    async with asyncio.timeout(30):
        while len(starts) < 10:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.01)
    assert not running.done()
    stop.set()
    await asyncio.wait_for(running, 5)
    await delivery.close()
