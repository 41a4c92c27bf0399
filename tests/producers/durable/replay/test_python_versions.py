"""A run goes on under another version of Python, or another task factory: killed after any entry, and once more.

Both ways in which the versions of Python run ``asyncio.wait_for`` are written down here, so that each version tests the
other one's histories. What the versions themselves do is tested where they are installed.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count, permutations
from typing import Any

import pytest

from cuts import cut_after, of_kind, on_node
from seekpoint.producers import Process, agent
from seekpoint.producers.durable.replay import recorded_scopes
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.values.json_values import load

Wait = Callable[[Coroutine[Any, Any, Any], float], Coroutine[Any, Any, Any]]


async def in_a_task(coroutine: Coroutine[Any, Any, Any], timeout: float) -> Any:
    """``wait_for`` of Python 3.11."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    late = loop.call_later(timeout, waiter.cancel)
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(partial(recorded_scopes._RELEASE_WAITER, waiter))  # type: ignore[misc,arg-type]
    await waiter
    late.cancel()
    return task.result()


async def in_place(fut: Coroutine[Any, Any, Any], timeout: float) -> Any:
    """``wait_for`` of Python 3.12 and later."""
    async with asyncio.timeout(timeout):
        return await fut


WAYS: dict[str, tuple[Wait, bool]] = {"task": (in_a_task, False), "in place": (in_place, False)}
if sys.version_info >= (3, 12):
    WAYS["eager"] = in_place, True


class Ledger:
    """Counts what steps gave, and the idempotency keys with which each payment was asked for."""

    def __init__(self) -> None:
        self.keys: dict[str, set[str]] = defaultdict(set)
        self.numbers = count(1)
        self.wait: Wait = in_place

    async def step(self, process: Process, name: str = "step") -> int:
        return await process.step(name, self.numbers.__next__)

    async def pay(self, process: Process, what: str) -> int:
        def pay(what: str, idempotency_key: str) -> int:
            self.keys[what].add(idempotency_key)
            return next(self.numbers)

        return await process.effect("pay", pay, what)

    async def limited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await self.wait(coroutine, 30)


async def alike(ledger: Ledger, process: Process) -> list[int]:
    """Equal requests before, in and after the wait."""

    async def inner() -> list[int]:
        return [await ledger.step(process), await ledger.step(process)]

    numbers = [await ledger.step(process)]
    numbers += await ledger.limited(inner())
    numbers += [await ledger.step(process), await ledger.limited(ledger.pay(process, "a"))]
    numbers += await ledger.limited(inner())
    return [*numbers, await ledger.pay(process, "b")]


async def nested(ledger: Ledger, process: Process) -> list[int]:
    """A wait in a wait, before and after calls of the code around it."""

    async def innermost() -> list[int]:
        return [await ledger.pay(process, f"in {next(names)}"), await ledger.step(process)]

    async def inner(begins: bool) -> list[int]:
        first = [await ledger.step(process, "first")] if begins else []
        return [*first, *await ledger.limited(innermost()), await ledger.step(process, "last")]

    names = count()
    numbers = [*await ledger.limited(inner(False)), await ledger.step(process)]
    return [*numbers, *await ledger.limited(inner(True)), await ledger.pay(process, "end")]


async def fanned_out(ledger: Ledger, process: Process) -> list[int]:
    """Tasks that are started inside a wait, after a call and before one."""

    async def branch(name: str) -> list[int]:
        return [await ledger.step(process, name), await ledger.pay(process, name)]

    async def fan_out(name: str, begins: bool) -> list[int]:
        if begins:
            await ledger.step(process, f"begin {name}")
        both = await asyncio.gather(branch(f"{name} left"), branch(f"{name} right"))
        return [max(map(max, both)), await ledger.step(process, f"end {name}")]

    numbers = await ledger.limited(fan_out("x", True))
    numbers += await ledger.limited(fan_out("y", False))
    return [*numbers, await ledger.pay(process, "main")]


async def together(ledger: Ledger, process: Process) -> list[int]:
    """Waits in tasks of ``gather``, ``TaskGroup`` and ``shield``."""

    async def branch(name: str) -> int:
        await ledger.limited(ledger.pay(process, name))
        return await ledger.step(process, f"after {name}")

    first = await asyncio.gather(branch("a"), branch("b"))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch("c")), group.create_task(branch("d"))]
    numbers = [max(first), max(task.result() for task in tasks)]
    return [*numbers, await asyncio.shield(branch("e")), await ledger.pay(process, "end")]


async def in_body(ledger: Ledger, process: Process) -> list[int]:
    """Waits in the body of a step."""

    async def body() -> list[int]:
        numbers = await ledger.limited(nested(ledger, process))
        return [*numbers, await ledger.step(process, "in the body")]

    return [*await process.step("outer", body), await ledger.limited(ledger.step(process, "end"))]


async def explicit(ledger: Ledger, process: Process) -> list[int]:
    """Explicit branches, which need the task of the main code."""

    async def branch(name: str) -> list[int]:
        return [await ledger.step(process, name), await ledger.pay(process, name)]

    both = await process.gather(branch("left"), branch("right"), branch("last"), limit=2)
    raced = await process.race(branch("fast"), branch("slow"))
    async with process.branch(branch("beside")):
        number = await ledger.step(process, "block")
    return [max(map(max, both)), max(raced), number]


PROGRAMS = (alike, nested, fanned_out, together, in_body, explicit)


@pytest.mark.parametrize(("old", "new"), [*permutations(WAYS, 2), *((way, way) for way in WAYS)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_a_run_goes_on_under_another_python(
    program: Callable[[Ledger, Process], Coroutine[Any, Any, list[int]]], old: str, new: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its calls keep their answers, in their order, and each payment has one idempotency key."""
    monkeypatch.setattr(recorded_scopes, "_WAIT_FOR", in_place.__code__)
    loop, ledger = asyncio.get_running_loop(), Ledger()

    @agent("a")
    async def a(process: Process, _given: None) -> list[int]:
        return await program(ledger, process)

    async def ended(log: MemoryLog, way: str) -> None:
        ledger.wait, is_eager = WAYS[way]
        if is_eager:
            loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        try:
            async with asyncio.timeout(20):
                numbers = await on_node(log, lambda node: node.run(a, "p", take_over=True))
        finally:
            loop.set_task_factory(None)
        assert numbers == sorted(numbers), where
        assert {what: len(keys) for what, keys in ledger.keys.items()} == dict.fromkeys(ledger.keys, 1), where

    where: Any = "whole"
    whole = MemoryLog(partitions=1)
    await ended(whole, old)
    chance, high = random.Random(7), whole.watermarks(0).high
    for entries in range(1, high, 3):
        where = entries
        resumed = cut_after(whole, entries)
        ledger.keys = recorded_keys(resumed)
        await ended(resumed, new)
        again = cut_after(resumed, chance.randrange(entries, resumed.watermarks(0).high))
        ledger.keys = recorded_keys(again)
        where = entries, again.watermarks(0).high
        await ended(again, old)


def recorded_keys(log: MemoryLog) -> dict[str, set[str]]:
    """The idempotency keys of the payments that a log has, as a bank would know them."""
    keys: dict[str, set[str]] = defaultdict(set)
    for intent in of_kind(log, b.EffectIntended):
        keys[load(intent.arguments)[0]].add(intent.idempotency_key)
    return keys
