"""Timers: a moment that is written down first. In memory, by a virtual clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cuts import bodies, cuts, of_kind, on_node, until
from open_processes import durable_side
from seekpoint.producers import Agent, Node, Process, SystemClock, VirtualClock, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused, ReplayDivergence

START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000


def sleeper(clock: VirtualClock, woke: list[int]) -> Agent:
    """Sleeps three days, and says when it woke."""

    @agent("sleeper")
    async def run(process: Process, input: Any) -> Any:
        await process.sleep(timedelta(days=3))
        woke.append(clock.now_us())
        return "up"

    return run


async def test_a_sleep_of_days_takes_no_time_and_is_awaiting() -> None:
    """The moment is in the log before the wait, and the process says that it waits."""
    log, clock = MemoryLog(partitions=1), VirtualClock(patience_s=0)
    woke: list[int] = []
    assert await on_node(log, lambda node: node.run(sleeper(clock, woke), "p"), clock) == "up"
    assert woke == [START_US + 3 * DAY_US]
    kinds = [body.to if isinstance(body, b.LifecycleChanged) else body.KIND for body in bodies(log)]
    at = kinds.index("timer_set")
    assert kinds[at : at + 4] == ["timer_set", "awaiting", "running", "timer_fired"]
    assert of_kind(log, b.TimerSet)[0].fires_at_us == START_US + 3 * DAY_US
    assert of_kind(log, b.TimerFired)[0].fired_at_us == START_US + 3 * DAY_US


@pytest.mark.parametrize("away_days", [0.0, 1.5, 3.0, 10.0])
async def test_a_timer_keeps_its_moment_through_a_crash_anywhere(away_days: float) -> None:
    """Cut after each entry, resumed after a while: not shifted by the crash, never early, not lost.

    Bugs of others: delayed work that is lost on load (ActiveGraph); a timer that is claimed before it fires and lost in
    between (Tape).
    """
    whole, clock = MemoryLog(partitions=1), VirtualClock(patience_s=0)
    await on_node(whole, lambda node: node.run(sleeper(clock, []), "p"), clock)
    seen = set()
    for log in cuts(whole):
        timers = of_kind(log, b.TimerSet)
        fired = bool(of_kind(log, b.TimerFired))
        resumed_us = START_US + round(away_days * DAY_US)
        clock = VirtualClock(resumed_us, patience_s=0)
        woke: list[int] = []
        result = await on_node(
            log, lambda node: node.run(sleeper(clock, woke), "p", take_over=True), clock  # noqa: B023  # awaited here
        )  # fmt: skip
        assert result == "up"
        due_us = timers[0].fires_at_us if timers else resumed_us + 3 * DAY_US
        if not of_kind(log, b.Finished):
            continue
        if woke:  # else it had finished
            assert woke == [resumed_us if fired else max(due_us, resumed_us)]
        seen.add((bool(timers), fired))
        assert len(of_kind(log, b.TimerSet)) == len(of_kind(log, b.TimerFired)) == 1
    assert seen == {(False, False), (True, False), (True, True)}


async def test_a_process_that_sleeps_is_resumed_when_its_moment_has_passed() -> None:
    """Whoever opens it after the moment goes on at once; before it, waits the rest."""
    log, clock = MemoryLog(partitions=1), VirtualClock(skips=False)
    async with Node.in_memory(log, clock=clock) as node:
        run = asyncio.create_task(node.run(sleeper(clock, []), "p"))
        await until(lambda: any(isinstance(body, b.LifecycleChanged) and body.to == "awaiting" for body in bodies(log)))
        run.cancel()
        await asyncio.wait([run])
        assert (await node.recover("p")).state.lifecycle == "awaiting"
        clock.advance(2 * 86_400)
        woke: list[int] = []
        run = asyncio.create_task(node.run(sleeper(clock, woke), "p"))
        await asyncio.sleep(0.05)
        assert not woke
        clock.advance(86_399)
        await asyncio.sleep(0.05)
        assert not woke
        clock.advance(1)
        assert await asyncio.wait_for(run, 60) == "up"
        assert woke == [START_US + 3 * DAY_US]


async def test_sleeping_until_a_moment(caplog: pytest.LogCaptureFixture) -> None:
    """In any zone that is named; at once if it has passed; a moment without a zone is refused."""
    log, clock = MemoryLog(partitions=1), VirtualClock()
    async with Node.in_memory(log, clock=clock) as node, node.open("p") as process:
        when = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(hours=5, microseconds=1)
        await process.sleep_until(when)
        assert clock.now_us() == START_US + 5 * 3_600_000_000 + 1
        await process.sleep_until(when - timedelta(days=1))
        await process.sleep(-1)
        await process.sleep(0.0000001)
        assert clock.now_us() == START_US + 5 * 3_600_000_000 + 2
        for wrong in (datetime(2030, 1, 1), "tomorrow"):  # on purpose
            with pytest.raises(Refused, match="with a time zone"):
                await process.sleep_until(wrong)  # type: ignore[arg-type]  # on purpose
        for wrong_span in (float("nan"), float("inf"), 1e18, "1", True, timedelta.max):
            with pytest.raises(Refused, match="span of time"):
                await process.sleep(wrong_span)  # type: ignore[arg-type]  # on purpose
    assert [one.key for one in of_kind(log, b.TimerSet)] == ["sleep_until:1", "sleep_until:2", "sleep:1", "sleep:2"]


async def test_timers_that_run_at_once_fire_in_their_own_order() -> None:
    """Each has its moment from when it was asked for."""
    log = MemoryLog(partitions=1)
    order: list[int] = []

    async def nap(process: Process, span_s: int) -> None:
        await process.sleep(span_s, key=f"nap {span_s}")
        order.append(span_s)

    async with Node.in_memory(log, clock=VirtualClock()) as node, node.open("p") as process:
        await asyncio.gather(*(nap(process, span_s) for span_s in (30, 10, 20)))
    assert order == [10, 20, 30]
    async with Node.in_memory(log, clock=VirtualClock(START_US + 30_000_000)) as node, node.open("p") as process:
        await asyncio.gather(*(nap(process, span_s) for span_s in (30, 10, 20)))
    assert len(of_kind(log, b.TimerSet)) == 3


async def test_another_span_is_another_question() -> None:
    """Code that sleeps longer than its history did diverges, as with a step's arguments."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, clock=VirtualClock()) as node:
        async with node.open("p") as process:
            await process.sleep(1)
        async with node.open("p") as process:
            with pytest.raises(ReplayDivergence) as caught:
                await process.sleep(2)
    assert caught.value.kind == "input"


async def test_a_thousand_sleepers_cost_nothing() -> None:
    """While they wait nothing is appended, and the tasks of the loop do not wake."""
    log, clock = MemoryLog(partitions=1), VirtualClock(skips=False)
    async with Node.in_memory(log, clock=clock, confirm_interval_s=60.0) as node, node.open("p") as process:
        naps = [asyncio.ensure_future(process.sleep(3_600)) for _ in range(1_000)]
        await until(lambda: len(of_kind(log, b.TimerSet)) == 1_000)
        await asyncio.sleep(0.2)
        high, looks = log.watermarks(0).high, 0

        def counted() -> bool:
            nonlocal looks
            looks += 1
            return False

        durable_side(process).cancellation.accept = counted  # type: ignore[method-assign]  # asked at each look
        await asyncio.sleep(0.3)
        assert (log.watermarks(0).high, looks) == (high, 0)
        clock.advance(3_600)
        await asyncio.wait_for(asyncio.gather(*naps), 60)


async def test_the_systems_clock_waits_for_its_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never early: woken too soon it waits on; and where the wall clock jumped it looks again within a minute."""
    clock, now = SystemClock(), [0]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += round(seconds * 900_000)  # the wall clock is slower than the monotonic one

    monkeypatch.setattr("seekpoint.producers.writer.clocks.asyncio.sleep", sleep)
    monkeypatch.setattr(clock, "now_us", lambda: now[0])
    await clock.until(100_000_000)
    assert now[0] >= 100_000_000
    assert max(slept) == 60.0
