"""Code that blocks the event loop: the heartbeat goes on, nobody takes the claims, and the log says what blocks it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from idle_tailers import until
from seekpoint.consumers.heartbeats.liveness import Heartbeats, Liveness, LivenessVerdict
from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.memory_log import MemoryLog


def block_the_loop(until_s: float) -> None:
    """Stand still as code does that computes, or that calls a blocking client, without a thread."""
    while time.monotonic() < until_s:
        time.sleep(0.01)


async def test_a_blocked_loop_keeps_its_claims_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    log, verdicts, over = MemoryLog(), [], threading.Event()
    settings = Settings(redis_url=None)
    liveness = Liveness(Heartbeats(log, settings), 1.0, loop_timeout_s=60.0)

    async with Node.in_memory(log, heartbeat_interval_s=0.05, owner_timeout_s=1.0) as node:
        heartbeater = runtime_of(node).heartbeater
        await node.open("p")
        owner = (await node.recover("p")).state
        assert owner.owner is not None

        def watch() -> None:
            while not over.wait(0.05):
                liveness.observe()
                verdicts.append(liveness.judge(owner.owner_node or "", owner.owner_boot or "", owner.owner or b""))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            await until(lambda: LivenessVerdict.ALIVE in verdicts, "the node looks alive")
            assert heartbeater.loop_stalls == 0
            block_the_loop(time.monotonic() + 4.0)
            await until(lambda: verdicts[-1] is LivenessVerdict.ALIVE, "the loop turns again")
        finally:
            over.set()
            watching.join()
        assert LivenessVerdict.BLOCKED in verdicts
        assert LivenessVerdict.DEAD not in verdicts
        assert heartbeater.loop_stalls == 1
        assert "block_the_loop" in caplog.text


async def test_a_claim_made_after_a_standstill_is_named() -> None:
    """The thread repeats what the loop said last, and never in place of what it says now."""
    log = MemoryLog()
    async with Node.in_memory(log, heartbeat_interval_s=0.02, owner_timeout_s=1.0) as node:
        for number in range(5):
            block_the_loop(time.monotonic() + 0.1)
            await node.open(f"p{number}")
            state = (await node.recover(f"p{number}")).state
            snapshot = Heartbeats(log, Settings(redis_url=None)).read()
            assert state.owner in snapshot.heartbeats[state.owner_node or ""].claim_ids


async def test_the_thread_of_heartbeats_ends_with_its_node() -> None:
    def beating() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "seekpoint-heartbeats"]

    before = len(beating())
    async with Node.in_memory(heartbeat_interval_s=0.02):
        assert len(beating()) == before + 1
    await until(lambda: len(beating()) <= before, "the thread goes on")
    await asyncio.sleep(0)


async def test_a_heartbeat_that_fails_once_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """Else the thread would repeat old claims for ever, and each new one would look free."""
    log, failures = MemoryLog(), [ValueError("no status")]

    def fail() -> None:
        if failures:
            raise failures.pop()

    async with Node.in_memory(log, heartbeat_interval_s=0.02, owner_timeout_s=1.0) as node:
        runtime_of(node).heartbeater.worker = fail  # type: ignore[assignment]
        await until(lambda: "no status" in caplog.text, "the failure is said")
        await node.open("p")
        state = (await node.recover("p")).state
        snapshot = Heartbeats(log, Settings(redis_url=None)).read()
        assert state.owner in snapshot.heartbeats[state.owner_node or ""].claim_ids
