"""An effect that changed code makes in another scope: it is never made twice. Every pair of scopes. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from seekpoint.producers import Agent, Effect, Node, Process, Retry, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import EffectHeld, ReplayDivergence

AT_ONCE = Retry(attempts=2, backoff_s=0, jitter=0)
Form = Callable[["Bank", Process], Awaitable[Any]]


class Bank:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.tries = 0

    async def pay(self, process: Process) -> Any:
        """The effect that is moved."""
        return await process.effect("pay", self._pay, semantics=Effect.AT_MOST_ONCE)

    def _pay(self, idempotency_key: str) -> str:
        self.paid.append(idempotency_key)
        return "paid"


async def in_group(bank: Bank, process: Process) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(bank.pay(process))


async def in_branch(bank: Bank, process: Process) -> None:
    async with process.branch(bank.pay(process)) as branch:
        await branch.result()


async def in_body(bank: Bank, process: Process) -> None:
    await process.step("work", lambda: bank.pay(process))


async def in_task_of_body(bank: Bank, process: Process) -> None:
    async def body() -> None:
        await asyncio.create_task(bank.pay(process))

    await process.step("work in a task", body)


async def in_second_attempt(bank: Bank, process: Process) -> None:
    async def body() -> None:
        bank.tries += 1
        if bank.tries == 1:
            raise ConnectionError("not yet")
        await bank.pay(process)

    await process.step("work again", body, retry=AT_ONCE)


async def both(*calls: Awaitable[Any]) -> None:
    await asyncio.gather(*calls)


FORMS: dict[str, Form] = {
    "main": lambda bank, process: bank.pay(process),
    "task": lambda bank, process: asyncio.create_task(bank.pay(process)),
    "wait_for": lambda bank, process: asyncio.wait_for(bank.pay(process), 30),
    "shield": lambda bank, process: asyncio.shield(bank.pay(process)),
    "gather": lambda bank, process: both(bank.pay(process), asyncio.sleep(0)),
    "TaskGroup": in_group,
    "branch": in_branch,
    "process.gather": lambda bank, process: process.gather(bank.pay(process)),
    "process.race": lambda bank, process: process.race(bank.pay(process)),
    "body": in_body,
    "task of a body": in_task_of_body,
    "second attempt": in_second_attempt,
}
PAIRS = list(product(FORMS, FORMS))
EXPLICIT = {"branch", "process.gather", "process.race"}
TASKS = {"task", "shield", "gather", "TaskGroup"}


def is_same(old: str, new: str) -> bool:
    """Whether no version of Python can tell the two apart. ``wait_for`` is a task or not."""
    return any({old, new} <= alike for alike in ({old}, EXPLICIT, TASKS))


def may_be_same(old: str, new: str) -> bool:
    return is_same(old, new) or ("wait_for" in (old, new) and {old, new} & {"main", *TASKS} != set())


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    held = "seekpoint.producers.durable.effects.held_effects"
    monkeypatch.setattr(f"{held}._MOVED_S", 0.02)
    monkeypatch.setattr(f"{held}._OTHER_S", 0.05)


async def outcome(log: MemoryLog, code: Agent) -> Exception | None:
    """Run the agent, and return the divergence of the run, if it has one."""
    async with Node.in_memory(log) as node:
        try:
            await node.run(code, "p")
        except (ReplayDivergence, EffectHeld) as exc:
            return exc
        except EndOfRun:
            return None
    return None


class EndOfRun(Exception):
    """Ends a run that is to be repeated."""


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=map("-".join, PAIRS))
async def test_no_effect_of_the_main_code_is_made_twice(old: str, new: str, log: MemoryLog) -> None:
    """Unchanged code goes on; changed code stops before it pays."""
    bank = Bank()

    async def run(form: Form) -> Exception | None:
        @agent("a")
        async def a(process: Process, _given: None) -> None:
            await form(bank, process)
            raise EndOfRun

        return await outcome(log, a)

    assert await run(FORMS[old]) is None
    assert len(bank.paid) == 1
    error = await run(FORMS[new])
    assert len(bank.paid) == 1
    if not may_be_same(old, new):
        assert isinstance(error, ReplayDivergence)
    if is_same(old, new):
        assert error is None


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=map("-".join, PAIRS))
async def test_no_effect_in_a_body_in_doubt_is_made_twice(old: str, new: str, log: MemoryLog) -> None:
    """The body runs again after a crash, and makes its calls again."""
    bank, reached = Bank(), asyncio.Event()

    async def run(form: Form, is_cut: bool) -> Exception | None:
        @agent("a")
        async def a(process: Process, _given: None) -> None:
            async def body() -> None:
                await form(bank, process)
                reached.set()
                await asyncio.sleep(3600 if is_cut else 0)

            await process.step("outer", body)

        running = asyncio.create_task(outcome(log, a))
        if is_cut:
            await asyncio.wait_for(reached.wait(), 30)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            return None
        return await running

    await run(FORMS[old], is_cut=True)
    assert len(bank.paid) == 1
    error = await run(FORMS[new], is_cut=False)
    assert len(bank.paid) == 1
    if not may_be_same(old, new):
        assert isinstance(error, ReplayDivergence)
    if is_same(old, new):
        assert error is None


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=map("-".join, PAIRS))
async def test_no_effect_of_a_body_that_is_tried_again_is_made_twice(old: str, new: str, log: MemoryLog) -> None:
    """An equal request gets the recorded answer, wherever in the body it is made."""
    bank, tries = Bank(), 0

    @agent("a")
    async def a(process: Process, _given: None) -> None:
        async def body() -> None:
            nonlocal tries
            tries += 1
            await FORMS[old if tries == 1 else new](bank, process)
            if tries == 1:
                raise ConnectionError("broken off")

        await process.step("outer", body, retry=AT_ONCE)

    assert await outcome(log, a) is None
    assert (len(bank.paid), tries) == (1, 2)
