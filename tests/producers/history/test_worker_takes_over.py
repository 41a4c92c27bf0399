"""Forks, reruns and rewound or promoted processes that a worker takes up: each goes on to its end. In memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from cuts import until
from seekpoint.producers import Client, Effect, HistoryPoint, Node, Process, Worker, agent
from seekpoint.producers.history.forks import ForkRequest, RunAgain, forked_by
from seekpoint.producers.node import runtime_of
from seekpoint.producers.opening import OpenRequest
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import RunFailed
from seekpoint.schemas.state.lifecycle import Lifecycle

done: Counter[str] = Counter()
ROUND_S = 10.0
stops: set[str] = set()
"""The processes whose last step hangs."""
asked: list[str] = []
"""The models that were asked."""


async def tell(what: str) -> str:
    done[what] += 1
    return what


@agent("child")
async def child(process: Process, given: str) -> str:
    return await process.step("inner", tell, "inner")


def choose(request: dict[str, Any]) -> str:
    asked.append(request["model"])
    return "pay"


@agent("shop")
async def shop(process: Process, given: str) -> list[Any]:
    """Look, decide, pay, let a child work, close; of some processes the last step never ends."""
    found = [await process.step("look", tell, "look")]
    choice = await process.decide("choose", choose, {"model": "small", "order": given})
    found.append(await process.effect(choice, tell, choice, semantics=Effect.AT_MOST_ONCE))
    found.append(await process.spawn(child, f"{process.process_id}.1", "x").result())

    async def close() -> str:
        await tell("close")
        if process.process_id in stops:
            await asyncio.Event().wait()
        return "close"

    found.append(await process.step("close", close))
    return found


WHOLE = ["look", "pay", "inner", "close"]


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    done.clear()
    stops.clear()
    asked.clear()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=4)


async def finished(log: MemoryLog, name: str = "p") -> None:
    """Run a process to its end, beside the workers."""
    async with Node.in_memory(log, node_id="first") as node:
        assert await node.run(shop, name, "x") == WHOLE
    done.clear()


async def cut_off(log: MemoryLog, name: str = "p") -> None:
    """Run a process until its last step hangs, and end it there."""
    stops.add(name)
    async with Node.in_memory(log, node_id="first") as node:
        run = asyncio.ensure_future(node.run(shop, name, "x"))
        await until(lambda: done["close"] or run.done())
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    stops.clear()
    done.clear()


@asynccontextmanager
async def worked(log: MemoryLog) -> AsyncIterator[Client]:
    """A client, and a worker that looks for work."""
    async with Worker.in_memory([shop, child], log, grace_s=0.1, drain_s=2.0), Client.in_memory(log) as client:
        yield client


KEYS = {"look:1": "look", "choose:1": None, "pay:1": "pay", "child:1": "inner", "close:1": "close"}
"""The calls in their order, and what each of them tells."""


@pytest.mark.parametrize("is_at_work", [False, True])
@pytest.mark.parametrize("key", ["look:1", "choose:1", "pay:1", "child:1"])
async def test_a_fork_goes_on_to_its_end(log: MemoryLog, key: str, is_at_work: bool) -> None:
    """At each of its calls: what came before is inherited, what comes after is made by a worker, its child too.

    Behind the child too, where the parent was awaiting it.
    """
    await finished(log)
    async with Node.in_memory(log, node_id="forks") as node, AsyncExitStack() as workers:
        if is_at_work:
            await workers.enter_async_context(worked(log))
        async with node.fork("p", "q", at=HistoryPoint.after(key), effects="live"):
            pass
        async with worked(log) as client:
            assert await client.result("q", ROUND_S) == WHOLE
    later = [*KEYS][[*KEYS].index(key) + 1 :]
    assert done == Counter(told for one in later if (told := KEYS[one]))


@pytest.mark.parametrize("is_promoted", [False, True])
async def test_a_moment_at_which_a_child_had_just_ended_does_not_wait(log: MemoryLog, is_promoted: bool) -> None:
    """Its parent was awaiting then. A worker has to run it: nothing is left for which it could wait."""
    await cut_off(log)
    async with Node.in_memory(log, node_id="first") as node:
        ended = HistoryPoint.after("child:1")
        if is_promoted:
            async with node.fork("p", "q", at=ended, answers={"look:1": "another"}) as fork:
                await fork.transition("awaiting")
            await node.promote("q", prefer="fork")
        else:
            await node.rewind("p", ended)
    async with worked(log) as client:
        assert await client.result("p", ROUND_S) == ["another" if is_promoted else "look", *WHOLE[1:]]
    assert done == {"close": 1}


async def test_a_fork_that_may_not_act_fails_and_is_not_tried_for_ever(log: MemoryLog) -> None:
    """The worker writes the refusal down, as for any error of the code; nothing is done outside."""
    await finished(log)
    async with Node.in_memory(log, node_id="forks") as node, worked(log) as client:
        async with node.fork("p", "q", at=HistoryPoint.after("choose:1")):
            pass
        with pytest.raises(RunFailed, match="EffectRefused"):
            await client.result("q", ROUND_S)
        assert (await client.state("q")).lifecycle is Lifecycle.FAILED
    assert not done


async def test_a_rerun_that_was_interrupted_goes_on_to_its_end(log: MemoryLog) -> None:
    """With the model that it was begun with; the record answers the worker's run too, so no body runs."""
    await finished(log)
    async with Node.in_memory(log, node_id="reruns") as node:
        fork = ForkRequest(
            parent_id="p", effects="recorded", permissive=True,
            again=RunAgain(
                process_id="p", agent="shop", version=shop.version, definition=shop.definition, model="large",
                input_json='"x"',
            ),
        )  # fmt: skip
        async with node._opener.opening(
            OpenRequest(
                process_id="p~large", cause=Cause(actor="ann"), inherit=partial(forked_by, runtime_of(node), fork)
            )
        ):
            pass  # it dies here, before its code is run
        async with worked(log) as client:
            assert await client.result("p~large", ROUND_S) == WHOLE
        found = await node.rerun(shop, "p", model="large")
        assert (found.status, found.is_same_outcome, found.model) == ("finished", True, "large")
    assert (done, asked) == ({}, ["small", "large"])


async def test_a_rewound_process_goes_on_to_its_end(log: MemoryLog) -> None:
    """From the moment to which it went back; its payment is not made again."""
    await cut_off(log)
    async with Node.in_memory(log, node_id="rewinds") as node:
        await node.rewind("p", HistoryPoint.before("look:1"))
    async with worked(log) as client:
        assert await client.result("p", ROUND_S) == WHOLE
    assert done == {"look": 1, "close": 1}  # the child has ended, the payment is a fact


async def test_a_promoted_parent_goes_on_to_its_end(log: MemoryLog) -> None:
    """With the answers of its fork: no body runs again."""
    await cut_off(log)
    async with Node.in_memory(log, node_id="promotes") as node:
        async with node.fork("p", "q"):
            pass
        assert await node.run(shop, "q") == WHOLE
        assert done == {"close": 1}
        await node.promote("q")
    async with worked(log) as client:
        assert await client.result("p", ROUND_S) == WHOLE
    assert done == {"close": 1}
