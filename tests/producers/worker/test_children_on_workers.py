"""Children of processes that workers run: they run on any worker, and their parents leave memory. In memory."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cuts import of_kind
from lost_workers import vanish
from seekpoint.producers import Agent, Client, Process, Retry, Worker, agent
from seekpoint.producers.runs.submission_sender import send_submission
from seekpoint.producers.worker import submitted_children
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.errors import Cancelled, RunFailed
from seekpoint.schemas.log.partition import partition_of

pytestmark = pytest.mark.asyncio

ROUND_S = 10.0
DONE: Counter[str] = Counter()
"""How often each step was executed."""


def count(name: str) -> str:
    DONE[name] += 1
    return name


@agent("child")
async def child(process: Process, order: str) -> str:
    await process.step("work", count, f"{process.process_id}/work")
    if order == "waits":
        answer = await process.gate("go")
        return answer.outcome
    if order == "fails":
        raise ValueError("no money")
    if order == "fails in a step":
        await process.step("pay", refuse)
    return order


def refuse() -> None:
    raise KeyError("account")


@agent("parent")
async def parent(process: Process, orders: list[str]) -> list[str]:
    children = [process.spawn(child, f"{process.process_id}.{number}", order) for number, order in enumerate(orders)]
    results = [await outcome_of(one) for one in children]
    await process.step("end", count, f"{process.process_id}/end")
    return results


async def outcome_of(spawned: Any) -> str:
    try:
        result: str = await spawned.result()
        return result
    except (ValueError, KeyError) as exc:
        return f"{type(exc).__name__} {exc.args}"


TRIES: Counter[str] = Counter()


@agent("flaky child")
async def flaky_child(process: Process, times: int) -> str:
    def pay() -> str:
        TRIES[process.process_id] += 1
        if TRIES[process.process_id] <= times:
            raise ValueError("not yet")
        return "paid"

    paid: str = await process.step("pay", pay)
    return paid


@agent("insists", retry=Retry(attempts=3, backoff_s=0.05, jitter=0))
async def insists(process: Process, times: int) -> str:
    result: str = await process.spawn(flaky_child, f"{process.process_id}.c", times).result()
    return result


@agent("buyer")
async def buyer(process: Process, amounts: list[str]) -> int:
    for amount in amounts:
        await process.step("buy", str, usage={"usd": amount})
    return len(amounts)


@agent("thrifty")
async def thrifty(process: Process, amounts: list[str]) -> int:
    await process.set_budget({"usd": "3"})
    bought: int = await process.spawn(buyer, f"{process.process_id}.c", amounts).result()
    return bought


AGENTS: list[Agent] = [parent, child, flaky_child, insists, buyer, thrifty]


class Fleet:
    """A log in memory, with a client and workers."""

    def __init__(self) -> None:
        DONE.clear()
        self.log = MemoryLog()

    def worker(self, **options: Any) -> Worker:
        return Worker.in_memory(AGENTS, self.log, **{"grace_s": 0.1, "drain_s": 2.0, **options})


@asynccontextmanager
async def fleet() -> AsyncIterator[tuple[Fleet, Client, Worker]]:
    made = Fleet()
    async with Client.in_memory(made.log) as client, made.worker() as worker:
        yield made, client, worker


async def until(condition: Any) -> None:
    async with asyncio.timeout(ROUND_S):
        while not condition():  # noqa: ASYNC110  # workers give no event for what they know
            await asyncio.sleep(0.01)


async def test_children_run_on_any_worker() -> None:
    """Each once, and their parents get the results."""
    made = Fleet()
    async with Client.in_memory(made.log) as client, made.worker() as one, made.worker() as two:
        await until(lambda: len(one.assigned) == len(two.assigned) == 4)
        runs = [await client.submit(parent, f"p{number}", ["a", "b"]) for number in range(20)]
        assert [await run.result(ROUND_S) for run in runs] == [["a", "b"]] * 20
        await until(lambda: one.finished + two.finished == 60)
        assert min(one.finished, two.finished) > 10
    assert set(DONE.values()) == {1}
    assert sum(len(of_kind(made.log, b.ChildEnded, run.id)) for run in runs) == 40


async def test_a_parent_that_waits_for_a_child_leaves_memory_and_returns() -> None:
    """The end of the child brings it back; nothing runs twice."""
    async with fleet() as (made, client, worker):
        run = await client.submit(parent, "p", ["a", "waits"])
        await until(lambda: {"p", "p.1"} <= {*worker.waiting})
        assert not worker.running
        await client.approve("p.1", "go")
        assert await run.result(ROUND_S) == ["a", "approved"]
        assert (await client.state("p")).epoch == 2
        await until(lambda: not len(worker._duty._child_ends))
    assert set(DONE.values()) == {1}
    assert len(of_kind(made.log, b.ChildEnded, "p")) == 2


async def test_the_failure_of_a_child_has_the_class_that_its_code_raised() -> None:
    """That of a step with its arguments, else with the message as the argument."""
    async with fleet() as (_, client, worker):
        run = await client.submit(parent, "p", ["fails", "fails in a step"])
        assert await run.result(ROUND_S) == ["ValueError ('no money',)", "KeyError ('account',)"]
        await until(lambda: worker.failed == 2)


async def test_a_budget_covers_children_that_other_workers_run() -> None:
    """The child reads from its parent's entry what it may use, and tells at its end what it used."""
    async with fleet() as (_, client, _worker):
        assert await (await client.submit(thrifty, "p", ["1", "1"])).result(ROUND_S) == 2
        budget = (await client.state("p")).budget
        assert budget is not None
        assert budget.by_children["usd"] == 2
        with pytest.raises(RunFailed):
            await (await client.submit(thrifty, "q", ["2", "2", "2"])).result(ROUND_S)
        child_budget = (await client.state("q.c")).budget
        assert child_budget is not None
        assert child_budget.spent["usd"] == 4


async def test_a_child_that_ended_while_nobody_watched_brings_its_parent_back() -> None:
    """Its parent's worker was killed before it could learn of the end."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        worker = await made.worker().start()
        run = await client.submit(parent, "p", ["waits"])
        await until(lambda: {"p", "p.0"} <= {*worker.waiting})
        await vanish(worker)
        async with Worker.in_memory([child], made.log, group="children only") as other:
            await client.approve("p.0", "go")
            await until(lambda: other.finished == 1)
        async with made.worker():
            assert await run.result(ROUND_S) == ["approved"]
    assert set(DONE.values()) == {1}


async def test_a_child_whose_submission_was_lost_with_a_worker_is_submitted_again() -> None:
    """The worker was killed between the entry of the spawn and the record in the inbox."""
    made = Fleet()
    async with Client.in_memory(made.log) as client:
        worker = await made.worker(grace_s=60).start()
        inbox = made.log.topic("inbox")
        run = await client.submit(parent, "p", ["a"])
        inbox.refuse_appends()
        await until(lambda: of_kind(made.log, b.ChildSpawned, "p"))
        await vanish(worker)
        inbox.heal()
        assert not of_kind(made.log, b.Submitted, "p.0")
        async with made.worker():
            assert await run.result(ROUND_S) == ["a"]
    assert len(of_kind(made.log, b.ChildSpawned, "p")) == 1
    assert len(of_kind(made.log, b.Submitted, "p.0")) == 1


async def test_a_parent_that_left_memory_before_its_child_was_submitted_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child that does not exist needs its parent, which submits it."""
    sends = 0

    async def slow_at_first(*given: Any) -> None:
        nonlocal sends
        sends += 1
        if sends == 1:
            await asyncio.get_running_loop().create_future()
        await send_submission(*given)

    monkeypatch.setattr(submitted_children, "send_submission", slow_at_first)
    async with fleet() as (made, client, worker):
        run = await client.submit(parent, "p", ["a"])
        assert await run.result(ROUND_S) == ["a"]
        await until(lambda: worker.finished == 2)
        assert (sends, (await client.state("p")).epoch > 1) == (2, True)
    assert set(DONE.values()) == {1}
    assert len(of_kind(made.log, b.ChildSpawned, "p")) == 1


async def test_a_child_that_was_submitted_before_is_the_same_run() -> None:
    """By a client, with the same agent and input."""
    async with fleet() as (made, client, worker):
        await (await client.submit(child, "p.0", "a")).result(ROUND_S)
        assert await (await client.submit(parent, "p", ["a"])).result(ROUND_S) == ["a"]
        await until(lambda: worker.finished == 2)
        assert DONE["p.0/work"] == 1
        assert len(of_kind(made.log, b.AgentStarted, "p.0")) == 1


@pytest.mark.parametrize(("other", "given"), [("flaky child", 1), ("child", "b")])
async def test_a_child_whose_id_is_taken_fails(other: str, given: Any) -> None:
    """By another agent, or by another input; its parent fails by it."""
    async with fleet() as (_, client, _):
        await (await client.submit(other, "p.0", given)).status()
        with pytest.raises(RunFailed, match="AgentMismatch"):
            await (await client.submit(parent, "p", ["a"])).result(ROUND_S)


async def test_a_request_to_cancel_the_parent_reaches_a_child_on_another_worker() -> None:
    """Although neither of them is in memory; the parent is cancelled after the child."""
    made = Fleet()
    async with Client.in_memory(made.log) as client, made.worker() as one, made.worker() as two:
        await until(lambda: len(one.assigned) == len(two.assigned) == 4)
        ids = (f"p{number}" for number in range(10_000))
        process_id = next(
            each
            for each in ids
            if partition_of(process_key(each), made.log.partitions) in one.assigned
            and partition_of(process_key(f"{each}.0"), made.log.partitions) in two.assigned
        )
        run = await client.submit(parent, process_id, ["waits"])
        await until(lambda: process_id in one.waiting and f"{process_id}.0" in two.waiting)
        await run.cancel("enough")
        with pytest.raises(Cancelled):
            await run.result(ROUND_S)
        assert (await client.state(f"{process_id}.0")).cancelled == f"its parent {process_id} was cancelled"
        assert [ended.outcome for ended in of_kind(made.log, b.ChildEnded, process_id)] == ["failed"]
        await until(lambda: one.cancelled == two.cancelled == 1)


async def test_another_attempt_of_a_parent_tries_its_failed_child_again() -> None:
    """Once for each attempt."""
    TRIES.clear()
    async with fleet() as (made, client, _):
        assert await (await client.submit(insists, "p", 2)).result(ROUND_S) == "paid"
        assert TRIES["p.c"] == 3
        assert len(of_kind(made.log, b.RedriveRequested, "p.c")) == 2
        with pytest.raises(RunFailed, match="not yet"):
            await (await client.submit(insists, "q", 9)).result(ROUND_S)
        assert TRIES["q.c"] == 3


async def test_a_child_of_an_agent_that_the_worker_does_not_have_runs_beside_its_parent() -> None:
    """Nobody else would run it."""
    made = Fleet()
    async with Client.in_memory(made.log) as client, Worker.in_memory([parent], made.log, grace_s=0.1) as worker:
        run = await client.submit(parent, "p", ["a", "waits"])
        await until(lambda: of_kind(made.log, b.GateOpened, "p.1"))
        await asyncio.sleep(0.5)
        assert [*worker.running] == ["p"]
        await client.approve("p.1", "go")
        assert await run.result(ROUND_S) == ["a", "approved"]
    assert not of_kind(made.log, b.Submitted, "p.0")


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_family_ends_once_whoever_comes_and_goes(seed: int) -> None:
    """Workers join, leave and vanish at random; each completed step is executed once."""
    chance, made, workers = random.Random(seed), Fleet(), []

    async def join() -> None:
        workers.append(await made.worker(grace_s=0.05, drain_s=0.1, runs_max=10).start())

    async def approve(client: Client, process_id: str) -> None:
        while "go:1" not in (await client.status(process_id)).waits_for:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.05)
        await asyncio.sleep(chance.uniform(0.3, 2.0))
        await client.approve(process_id, "go")

    async with Client.in_memory(made.log) as client, asyncio.timeout(60):
        await join()
        runs = [await client.submit(parent, f"p{number}", ["a", "waits", "fails"]) for number in range(15)]
        results = asyncio.gather(*(run.result() for run in runs), *(approve(client, f"{run.id}.1") for run in runs))
        while not results.done():
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            if len(workers) > 1 and chance.random() < 0.5:
                leaves = workers.pop(chance.randrange(len(workers)))
                await (leaves.close() if chance.random() < 0.5 else vanish(leaves, chance.uniform(0.0, 0.3)))
            elif len(workers) < 4:
                await join()
        assert (await results)[:15] == [["a", "approved", "ValueError ('no money',)"]] * 15
        await asyncio.gather(*(worker.close() for worker in workers))
        states = [await client.state(run.id) for run in runs]
    assert all(state.finished for state in states)
    for kind in (b.ChildSpawned, b.ChildEnded):
        assert sum(len(of_kind(made.log, kind, run.id)) for run in runs) >= 45
    ended = {process_id for run in runs for process_id in (f"{run.id}.0", f"{run.id}.1", f"{run.id}.2", run.id)}
    assert {name.partition("/")[0] for name in DONE} == ended
