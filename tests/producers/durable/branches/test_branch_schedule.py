"""Explicit branches in random programs that crash after every entry: each resumed run does what the first one did."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from cuts import bodies, cuts, on_node
from seekpoint.producers import Agent, Process, agent
from seekpoint.producers.durable.branches.branch_schedule import BranchSchedule, BranchTask
from seekpoint.producers.durable.replay import completion_order
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.calls import Call

Plan = list[tuple[str, Any]]


def plan_of(chance: random.Random, depth: int = 0) -> Plan:
    """Return what one branch does."""
    kinds = ["step", "step", "write", "sleep", "fails", "nested", "now", "quiet"]
    kinds += ["gather", "race", "limited", "beside", "waits"] * 2 if depth < 2 else []
    plan: Plan = []
    for kind in chance.choices(kinds, k=chance.randint(1, 3)):
        count = {"gather": 3, "race": 3, "limited": 4, "beside": 1, "waits": 1}.get(kind)
        if count is None:
            plan.append((kind, chance.randint(0, 5)))
        else:
            plan.append((kind, [plan_of(chance, depth + 1) for _ in range(chance.randint(min(count, 2), count))]))
    return plan


async def work(rounds: int) -> int:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return rounds


async def fails(rounds: int) -> None:
    await work(rounds)
    raise ValueError(rounds)


class Program:
    """What one run of a random program does, and what its branches were told, in that order."""

    def __init__(self, process: Process, trace: list[str]) -> None:
        self.process = process
        self.trace = trace

    async def perform(self, plan: Plan, path: str) -> list[Any]:
        seen: list[Any] = []
        try:
            for at, (kind, detail) in enumerate(plan):
                seen.append(await self.one(kind, detail, f"{path}.{at}"))
        finally:
            await self.step(f"{path}.tidy", 1)
        return seen

    async def step(self, name: str, rounds: int, body: Callable[[int], Any] = work) -> Any:
        try:
            found = await self.process.step(name, body, rounds)
        except ValueError:
            self.trace.append(name)
            raise
        self.trace.append(name)
        return found

    async def one(self, kind: str, detail: Any, path: str) -> Any:
        process = self.process
        simple: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "step": lambda: self.step(path, detail),
            "fails": lambda: self.step(path, detail, fails),
            "nested": lambda: self.step(path, detail, self.nested),
            "write": lambda: process.update(path, detail),
            "sleep": lambda: process.sleep(detail),
            "now": process.now,
            "quiet": lambda: asyncio.sleep(0),
        }
        if kind in simple:
            found = await simple[kind]()
            return found if kind in ("step", "nested", "now") else None
        branches = [self.perform(plan, f"{path}.{number}") for number, plan in enumerate(detail)]
        try:
            if kind in ("beside", "waits"):
                return await self.beside(branches[0], path, cancels=kind == "beside")
            if kind == "race":
                return await process.race(*branches)
            return await process.gather(*branches, limit=2 if kind == "limited" else None)
        except ValueError as exc:
            return repr(exc)

    async def beside(self, branch: Coroutine[Any, Any, Any], path: str, *, cancels: bool) -> Any:
        async with self.process.branch(branch) as beside:
            await self.step(f"{path}.meanwhile", 2)
            if cancels:
                return await beside.cancel()
            return await beside.result()

    async def nested(self, rounds: int) -> list[Any]:
        inner = [self.process.step("inner", work, number) for number in (rounds, 1)]
        return await self.process.gather(*inner)


def program_of(plans: list[Plan], trace: list[str]) -> Agent:
    @agent("explicit")
    async def run(process: Process, input: Any) -> Any:
        trace.clear()
        program, seen = Program(process, trace), []
        for at, plan in enumerate(plans):
            seen.append(await program.one("race", [plan, plans[at - 1]], f"r{at}"))
            await process.step("told", str, repr(seen))  # another winner is another input
        return seen

    return run


async def ended(log: MemoryLog, run: Agent) -> Any:
    async with asyncio.timeout(20):
        return await on_node(log, lambda node: node.run(run, "p", take_over=True))


def names_of_ended_steps(log: MemoryLog) -> set[str]:
    """Return the names of the steps that ended in the log."""
    names: dict[str, str] = {}
    found = set()
    for body in bodies(log):
        if isinstance(body, b.StepStarted):
            names[body.key] = body.name
        elif isinstance(body, b.StepEnded) and body.outcome != "retry":
            found.add(body.name or names[body.key])
    return found


@pytest.mark.parametrize("seed", range(10))
async def test_random_programs_of_explicit_branches_crash_after_any_entry(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the entries here; the long test takes every one. Every other program runs on a starved event loop."""
    await crash_programs(seed, monkeypatch, cuts_max=12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 160))
async def test_random_programs_of_explicit_branches_crash_after_every_entry(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crash_programs(seed, monkeypatch)


async def crash_programs(seed: int, monkeypatch: pytest.MonkeyPatch, cuts_max: int | None = None) -> None:
    """Crash a random program after its entries, without quiet rounds of the event loop and without the wall clock."""
    monkeypatch.setattr(completion_order, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(completion_order, "QUIET_ROUNDS", -1)
    chance, trace = random.Random(seed), list[str]()
    run, log = program_of([plan_of(chance) for _ in range(2)], trace), MemoryLog(partitions=1)
    await ended(log, run)
    first = list(trace)
    crashes = list(cuts(log))
    async with starving() if seed % 2 else nullcontext():
        for crashed in crashes if cuts_max is None else chance.sample(crashes, min(cuts_max, len(crashes))):
            recorded = names_of_ended_steps(crashed)
            known = next((at for at, name in enumerate(first) if name not in recorded), len(first))
            wanted = await ended(crashed, run)
            assert trace[:known] == first[:known]
            resumed = list(trace)
            assert await ended(crashed, run) == wanted
            assert not trace or trace == resumed


def starving() -> AbstractAsyncContextManager[Any]:
    return _Starving()


class _Starving:
    async def __aenter__(self) -> None:
        self.task = asyncio.create_task(self.burn())

    async def __aexit__(self, *exc: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def burn(self) -> None:
        while True:
            sum(range(2000))
            await asyncio.sleep(0)


async def test_an_answer_waits_for_one_that_is_before_it_in_the_log_and_comes_back_later() -> None:
    """The event loop may go round more often between a call's last entry and its return than for another call."""
    calls: dict[str, Call] = {}
    schedule = BranchSchedule(deque(), set(), lambda: calls, lambda key: AssertionError(key), lambda: False)
    given: list[str] = []

    async def ends(key: str, seq: int, before: int, behind: int) -> None:
        await work(before)
        calls[key] = Call("step", 1, "", "succeeded", 1, seq)
        await work(behind)

    async def branch(key: str, *how: int) -> None:
        task = BranchTask(schedule, asyncio.current_task())
        schedule.start(task)
        await schedule.answer(task, key, None, lambda: None, ends, (key, *how))
        given.append(key)
        schedule.rest(task)

    await asyncio.gather(branch("late", 10, 1, 9), branch("soon", 11, 3, 0), branch("last", 12, 30, 0))
    assert given == ["late", "soon", "last"]
