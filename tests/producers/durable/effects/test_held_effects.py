"""A first-time effect waits for the recorded effects that the code makes again. Unchanged code goes on. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from seekpoint.producers import Effect, Node, Process, Retry, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import EffectHeld, ReplayDivergence
from seekpoint.schemas.state.lifecycle import Lifecycle

HELD = "seekpoint.producers.durable.effects.held_effects"
Code = Callable[[Process], Awaitable[Any]]


class Bank:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    async def pay(self, process: Process, what: str, after_s: float = 0) -> Any:
        """Wait outside of calls, then pay."""
        await asyncio.sleep(after_s)
        return await process.effect("pay", self._pay, what, semantics=Effect.AT_MOST_ONCE)

    def _pay(self, what: str, idempotency_key: str) -> None:
        self.paid.append(what)


async def run(log: MemoryLog, code: Code, until: asyncio.Event | None = None) -> Exception | None:
    """Run the code; return the error. With ``until``, cut the run off once that is set, as a crash does."""

    @agent("a")
    async def a(process: Process, _given: None) -> None:
        await code(process)

    async with Node.in_memory(log) as node:
        running = asyncio.create_task(node.run(a, "p"))
        if until is not None:
            await asyncio.wait_for(until.wait(), 30)
            running.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await running
        except (ReplayDivergence, EffectHeld) as exc:
            return exc
    return None


async def test_a_body_in_doubt_may_take_its_time(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The effect of the other task waits until the body has made its recorded effect."""
    for name in ("_MOVED_S", "_HELD_S"):
        monkeypatch.setattr(f"{HELD}.{name}", 0.05)
    bank, paid = Bank(), asyncio.Event()

    async def code(process: Process) -> None:
        async def body() -> None:
            await bank.pay(process, "a", 0.3)
            is_first = not paid.is_set()
            paid.set()
            await asyncio.sleep(3600 if is_first else 0)

        async def beside() -> None:
            await bank.pay(process, "a", 3600 if not paid.is_set() else 0)

        await asyncio.gather(process.step("slow", body), beside())

    assert await run(log, code, paid) is None
    assert bank.paid == ["a"]
    assert await run(log, code) is None
    assert bank.paid == ["a", "a"]


async def test_branches_know_at_once_that_nothing_makes_the_recorded_effect(log: MemoryLog) -> None:
    """No clock is asked, though another effect is in the way."""
    bank, paid = Bank(), asyncio.Event()

    async def old(process: Process) -> None:
        await process.gather(bank.pay(process, "a"), process.step("look", str))
        paid.set()
        await asyncio.sleep(3600)

    async def new(process: Process) -> None:
        async def other() -> None:
            await process.step("look", str)
            await bank.pay(process, "b")

        await process.gather(process.sleep(0), other())

    async def without(process: Process) -> None:
        await process.gather(asyncio.sleep(0), bank.pay(process, "b"))

    await run(log, old, paid)
    async with asyncio.timeout(5):
        assert isinstance(await run(log, new), ReplayDivergence)
        assert isinstance(await run(log, without), ReplayDivergence)
    assert bank.paid == ["a"]


async def test_tasks_that_may_be_late_stop_with_an_error_that_can_be_tried_again(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is called; the run has failed, and the next one that is in time goes on."""
    monkeypatch.setattr(f"{HELD}._HELD_S", 0.2)
    bank, paid, delays = Bank(), asyncio.Event(), [(0.0, 3600.0), (3600.0, 0.0), (0.0, 0.1)]

    async def code(process: Process) -> None:
        first, second = delays.pop(0)

        async def begun(what: str, after_s: float) -> None:
            await process.step(f"begin {what}", str)
            await bank.pay(process, what, after_s)
            paid.set()

        await asyncio.gather(begun("a", first), begun("b", second))

    await run(log, code, paid)
    error = await run(log, code)
    assert isinstance(error, EffectHeld)
    assert (error.missing, error.key) == ("~1/pay:1", "~2/pay:1")
    async with Node.in_memory(log) as node:
        assert (await node.recover("p")).state.lifecycle is Lifecycle.FAILED
    assert bank.paid == ["a"]
    assert await run(log, code) is None
    assert bank.paid == ["a", "b"]


async def test_another_effect_of_the_name_in_a_further_attempt_diverges(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is made from a task, where nothing is recorded."""
    monkeypatch.setattr(f"{HELD}._OTHER_S", 0.05)
    bank, tries = Bank(), 0

    async def code(process: Process) -> None:
        async def body() -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                await bank.pay(process, "a")
                raise ConnectionError("broken off")
            await asyncio.create_task(bank.pay(process, "b"))

        await process.step("outer", body, retry=Retry(attempts=2, backoff_s=0, jitter=0))

    assert isinstance(await run(log, code), ReplayDivergence)
    assert bank.paid == ["a"]


async def test_branches_do_not_wait_for_an_effect_in_doubt_that_nothing_makes(log: MemoryLog) -> None:
    """It has no recorded answer that would be missed; the branches are at rest, so nothing can make it any more."""
    bank, called = Bank(), asyncio.Event()

    async def hang() -> None:
        called.set()
        await asyncio.sleep(3600)

    async def old(process: Process) -> None:
        await process.gather(process.effect("pay", hang, semantics=Effect.AT_MOST_ONCE))

    async def new(process: Process) -> None:
        await process.gather(asyncio.sleep(0), bank.pay(process, "b"))

    await run(log, old, called)
    async with asyncio.timeout(5):
        assert isinstance(await run(log, new), ReplayDivergence)
    assert bank.paid == []
