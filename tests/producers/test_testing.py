"""The kit for users' tests: crashes where they are wanted, and a history that code is held to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from seekpoint.producers import Agent, Process, VirtualClock, agent
from seekpoint.producers.testing import When, assert_replays, crash_at, history_of
from seekpoint.schemas.errors import Refused


def counting(calls: list[str]) -> Agent:
    """Two steps and a write; each body notes that it ran."""

    async def work(name: str) -> str:
        calls.append(name)
        await asyncio.sleep(0)
        return name.upper()

    @agent("counting")
    async def run(process: Process, input: Any) -> Any:
        first = await process.step("look", work, "look")
        await process.update("seen", first)
        await process.sleep(3_600)
        return [first, await process.step("send", work, "send"), process.state.context]

    return run


DONE = ["LOOK", "SEND", {"seen": "LOOK"}]


@pytest.mark.parametrize(
    ("call", "ended", "when", "ran"),
    [
        ("send:1", False, When.UNSENT, None),
        ("send:1", True, When.UNSENT, ["look", "send", "send"]),
        ("send:1", True, When.UNACKNOWLEDGED, ["look", "send"]),
        ("send:1", True, When.ACKNOWLEDGED, ["look", "send"]),
        ("look:1", True, When.UNSENT, ["look", "look", "send"]),
        ("look:1", True, When.ACKNOWLEDGED, ["look", "send"]),
    ],
)
async def test_a_node_dies_at_a_call_and_another_resumes(
    call: str, ended: bool, when: When, ran: list[str] | None
) -> None:
    """What is in the log is not done again; what is in doubt is. The result is the same."""
    calls: list[str] = []
    crash = crash_at(call=call, ended=ended, when=when)
    assert await crash.run(counting(calls), "p", None) == DONE
    assert crash.happened
    assert ran is None or calls == ran


async def test_a_node_dies_at_every_entry() -> None:
    """By seq, in each of the three ways; the journal then tells one story."""
    reference = crash_at(seq=1)
    assert await reference.run(counting([]), "p", None) == DONE
    entries = max(entry.seq or 0 for entry in reference.history())
    assert entries > 8
    for seq in range(1, entries - 5):
        for when in When:
            crash = crash_at(seq=seq, when=when)
            assert await crash.run(counting([]), "p", None) == DONE
            await assert_replays(counting([]), crash.history())


async def test_what_a_dying_node_does_reaches_nobody() -> None:
    """Its entries end where it died, though its code's last words run."""
    words: list[str] = []

    @agent("loud")
    async def loud(process: Process, input: Any) -> Any:
        try:
            await process.update("a", 1)
            words.append("alive")
            return await process.step("b", lambda: 2)
        finally:
            words.append("bye")

    crash = crash_at(call="#1", when="unacknowledged")
    assert await crash.run(loud, "p") == 2
    assert words == ["bye", "alive", "bye"]
    claims = [at for at, entry in enumerate(crash.history()) if entry.body.KIND == "claim"]
    before = crash.history()[: claims[1]]
    assert before[-1].body.call == "#1"


@pytest.mark.parametrize(("when", "times"), [("unsent", 1), ("unacknowledged", 1), ("acknowledged", 2)])
async def test_the_dying_nodes_code_goes_on_only_where_it_heard(when: str, times: int) -> None:
    """Of the entry that it died at: it is told where the crash comes after the acknowledgement, else never."""
    heard: list[int] = []

    @agent("hears")
    async def hears(process: Process, input: Any) -> Any:
        await process.update("a", 1)
        heard.append(1)
        await process.update("b", 2)

    await crash_at(call="#1", when=when).run(hears, "p")
    assert len(heard) == times


async def test_a_crash_that_never_came_is_a_failure() -> None:
    """Else a test of a point that is not there would pass for ever."""
    with pytest.raises(AssertionError, match=r"never came to the start of call sned:1"):
        await crash_at(call="sned:1").run(counting([]), "p")


async def test_a_new_version_resumes() -> None:
    """The first node runs the old code, the second the new."""

    @agent("counting", 2)
    async def newer(process: Process, input: Any) -> Any:
        first = await process.step("look", str.upper, "look")
        return [first, "new"]

    calls: list[str] = []
    crash = crash_at(call="look:1", ended=True)
    assert await crash.run(counting(calls), "p", resumed_by=newer) == ["LOOK", "new"]
    assert calls == ["look"]


async def test_the_clock_is_skipped() -> None:
    """An hour is slept in no time, by a clock that the test can ask."""
    clock = VirtualClock(patience_s=0.0)
    before = clock.now_us()
    await crash_at(seq=2).run(counting([]), "p", clock=clock)
    assert clock.now_us() - before >= 3_600_000_000


async def test_code_that_changed_does_not_replay() -> None:
    """Where, and what was expected, stands in the failure."""
    crash = crash_at(seq=1)
    await crash.run(counting([]), "p")

    @agent("counting", 2)
    async def other(process: Process, input: Any) -> Any:
        return await process.step("lookup", str.upper, "look")

    with pytest.raises(AssertionError, match="lookup"):
        await assert_replays(other, crash.history())
    found = await assert_replays(counting([]), history_of(crash.log, "p"))
    assert found.ended_by == "result"


@pytest.mark.parametrize("given", [{}, {"seq": 1, "call": "a:1"}, {"seq": 0}])
def test_a_crash_is_at_one_place(given: dict[str, Any]) -> None:
    """Not at none and not at two."""
    with pytest.raises(Refused):
        crash_at(**given)
