"""The calls that ended after a moment of a process's past. In memory."""

from __future__ import annotations

from seekpoint.producers import Node, Process, Retry, agent
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.history.later_calls import ended_after
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.state.process_state import new_state


async def test_the_ends_of_a_run_are_those_that_a_fold_finds() -> None:
    """Also of failed attempts, of turns that are over, of samples, and of calls that a rewind forgot."""
    failures = [1, 2]

    def flaky(number: int) -> int:
        if failures and number == failures[0]:
            failures.pop(0)
            raise ConnectionError("not now")
        return number

    @agent("turning")
    async def turning(process: Process, turns: int) -> None:
        async for turn in process.turns():
            await process.step("look", flaky, turn.number, retry=Retry(attempts=3, backoff_s=0.01))
            await process.now()
            if turn.number == turns:
                break
        await process.step("last", flaky, 3)

    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        await node.run(turning, "p", 2)
        async with node.open("q") as process:
            await process.update("begun", value=True)
            await process.step("one", flaky, 5)
        await node.rewind("q", 1)
        async with node.open("q") as process:
            await process.step("one", flaky, 6)
        for name in ("p", "q"):
            history = [one async for one in node.entries(name)]
            found = RecordedRun.of(history, log.limits, needs_agent=False).ended
            entries = ((one.offset, one.entry) for one in history)
            assert found == [*ended_after(new_state(), entries, log.limits)]
            assert len(found) > 1
