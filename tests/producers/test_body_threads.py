"""Plain functions that hang: others go on in further threads, a time-out counts no wait, and health says it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from idle_tailers import until
from seekpoint.producers import Effect, Node, Process, Retry, agent
from seekpoint.producers.durable.steps import body_threads
from seekpoint.producers.durable.steps.body_threads import BODY_THREADS_MAX, BodyThreads
from seekpoint.producers.health.node_health import NodeHealth
from seekpoint.producers.node import runtime_of

ONCE = Retry(attempts=1)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return what hung functions wait for."""
    event = threading.Event()
    yield event
    event.set()


async def test_hung_functions_are_replaced_and_named(gate: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    def hang() -> None:
        gate.wait()

    @agent("hangs")
    async def hangs(process: Process, _given: object) -> None:
        with pytest.raises(TimeoutError):
            await process.step("hang", hang, timeout=0.01, retry=ONCE)

    @agent("pays")
    async def pays(process: Process, _given: object) -> Any:
        paid = await process.effect("pay", lambda: "paid", semantics=Effect.AT_MOST_ONCE, timeout=30)
        return paid, await process.step("quick", str, 1, timeout=30, retry=ONCE)

    async with Node.in_memory() as node:
        await asyncio.gather(*[node.run(hangs, f"h{number}") for number in range(BODY_THREADS_MAX + 1)])
        async with asyncio.timeout(20):
            assert await node.run(pays, "pays") == ("paid", "1")
        assert "hang" in caplog.text
        assert runtime_of(node).body_threads.late == BODY_THREADS_MAX + 1
        gate.set()
        await until(lambda: runtime_of(node).body_threads.late == 0, "the threads")


async def test_a_time_out_counts_no_wait_for_a_thread(gate: threading.Event) -> None:
    def hold() -> None:
        gate.wait()

    @agent("holds")
    async def holds(process: Process, _given: object) -> None:
        await process.step("hold", hold)

    calls: list[str] = []

    def pay() -> None:
        calls.append("pay")

    @agent("pays")
    async def pays(process: Process, _given: object) -> Any:
        return await process.effect("pay", pay, semantics=Effect.AT_MOST_ONCE, timeout=0.2)

    async with Node.in_memory() as node:
        threads = runtime_of(node).body_threads
        held = [asyncio.create_task(node.run(holds, f"h{number}")) for number in range(BODY_THREADS_MAX)]
        await until(lambda: threads._free.locked(), "the threads")
        paying = asyncio.create_task(node.run(pays, "pays"))
        await until(lambda: threads.waiting == 1, "the threads")
        assert NodeHealth(runtime_of(node)).not_ready
        await asyncio.sleep(0.5)
        assert not paying.done()
        gate.set()
        await paying
        await asyncio.gather(*held)
    assert calls == ["pay"]


async def _call(threads: BodyThreads, gate: threading.Event) -> bool:
    run = await threads.take("call")
    return bool(await run(gate.wait))


def _has_begun(threads: BodyThreads, before: int) -> bool:
    return not threads.waiting and len(threads._threads._threads) > before


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[BodyThreads]:
    """Return threads for two calls at once, of which one more may be late."""
    monkeypatch.setattr(body_threads, "BODY_THREADS_MAX", 2)
    monkeypatch.setattr(body_threads, "LATE_MAX", 1)
    threads = BodyThreads()
    yield threads
    threads.close()


async def test_late_calls_are_bounded_and_give_their_threads_back(few: BodyThreads, gate: threading.Event) -> None:
    for late in range(3):
        left = asyncio.create_task(_call(few, gate))
        await until(partial(_has_begun, few, late), "the threads")
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert few.late == late + 1
    waiting = asyncio.create_task(_call(few, gate))
    await until(lambda: few.is_used_up, "the threads")
    assert few.shortage is not None
    gate.set()
    assert await waiting
    await until(lambda: few.late == 0, "the threads")
    assert few._free._value == 2
    assert not few.is_used_up
    assert few.shortage is None


async def test_a_cancelled_wait_takes_no_thread(few: BodyThreads, gate: threading.Event) -> None:
    running = [asyncio.create_task(_call(few, gate)) for _ in range(2)]
    await until(lambda: few._free.locked(), "the threads")
    waiting = asyncio.create_task(_call(few, gate))
    await until(lambda: few.waiting == 1, "the threads")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (few.waiting, few.late) == (0, 0)
    gate.set()
    await asyncio.gather(*running)
    assert few._free._value == 2


async def test_health_says_when_no_thread_can_become_free(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    async with Node.in_memory() as node:
        health = NodeHealth(runtime_of(node), 30.0, lambda: now[0])
        monkeypatch.setattr(BodyThreads, "is_used_up", True)
        now[0] = 31.0
        health.look()
        assert not health.is_well
        assert health.parts["threads"] == 31.0
        monkeypatch.setattr(BodyThreads, "is_used_up", False)
        health.look()
        assert health.is_well
