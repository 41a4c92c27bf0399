"""The waits between take-overs, and the last tries of runs whose owners died."""

from __future__ import annotations

from seekpoint.producers import agent
from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue
from seekpoint.producers.worker.take_overs import TakeOvers
from seekpoint.producers.writer.clocks import VirtualClock
from seekpoint.schemas.config.settings import Settings


@agent("a")
async def usual(process: object, given: object) -> None: ...


@agent("b", owner_deaths_max=1)
async def careful(process: object, given: object) -> None: ...


def test_the_waits_between_take_overs_grow() -> None:
    """The first death costs no wait: mostly the run is not what ended its owner."""
    clock = VirtualClock(skips=False)
    take_overs = TakeOvers(Settings(), clock)
    assert take_overs.wait_s("p", 1, 1) is None
    for epoch, deaths, wait_s in ((2, 2, 1.0), (3, 3, 2.0), (4, 4, 4.0), (9, 40, 60.0)):
        assert take_overs.wait_s("p", epoch, deaths) == wait_s
        clock.advance(wait_s / 2)
        assert take_overs.wait_s("p", epoch, deaths) == wait_s / 2
        clock.advance(wait_s / 2)
        assert take_overs.wait_s("p", epoch, deaths) is None
    assert take_overs.wait_s("p", 9, 0) is None


def test_the_try_before_the_run_is_parked_is_its_last() -> None:
    """By the setting, or by the agent."""
    take_overs = TakeOvers(Settings(owner_deaths_max=4), VirtualClock())
    assert [take_overs.is_last(usual, deaths) for deaths in range(5)] == [False, False, False, True, False]
    assert not any(take_overs.is_last(careful, deaths) for deaths in range(5))


def test_last_tries_begin_one_after_the_other() -> None:
    """If one ends the worker, it is not a death of the others. After a minute without progress the next one begins."""
    queue = RunQueue(10)
    for name in ("one", "two", "three"):
        queue.add(ReadyRun(name, "a", is_last_try=True))
    queue.add(ReadyRun("usual", "a"))
    taken = [run.process_id for run in iter(queue.take, None)]
    assert sorted(taken) == ["one", "usual"]
    queue.ended("usual")
    assert queue.take(1.0) is None
    queue.ended("one")
    second = queue.take(2.0)
    assert second is not None
    assert queue.take(61.0) is None
    assert queue.take(62.0) is not None
