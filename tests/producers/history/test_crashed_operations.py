"""An operation on a history that dies: one entry is whole or nothing, and the same command then succeeds. In memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cuts import cut_after, cuts, of_kind, until
from folding import refold
from owners import Owner
from seekpoint.consumers.heartbeats.liveness import Heartbeat, Heartbeats
from seekpoint.producers import Effect, HistoryPoint, Node, Process, agent
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import OwnerAlive, Refused
from seekpoint.schemas.state.calls import UNDO

done: Counter[str] = Counter()
"""The ledger: how often each body ran."""
hangs = [False]


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    done.clear()
    hangs[0] = False


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def last() -> str:
    done["last"] += 1
    if hangs[0]:
        await asyncio.Event().wait()
    return "last"


async def pay(what: str) -> str:
    done[f"paid {what}"] += 1
    return what


async def take_back(what: str, *, output: Any) -> None:
    done[f"took back {what}"] += 1


@agent("shop")
async def shop(process: Process, given: None) -> Any:
    choice = await process.decide("choose", lambda request: "pay", {"about": 1})
    await process.update("choice", choice)
    if choice == "pay":
        await process.effect("pay", pay, "goods", semantics=Effect.AT_MOST_ONCE, compensate=take_back)
    return [choice, await process.step("last", last)]


async def cut_off(node: Node) -> None:
    """Run "p" until its last step hangs, and end it there."""
    hangs[0] = True
    run = asyncio.ensure_future(node.run(shop, "p", None))
    await until(lambda: done["last"] or run.done())
    assert not run.done(), run.exception()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    hangs[0] = False


async def go_back(node: Node) -> None:
    await node.rewind("p", answers={"choose:1": "reject"}, effects="keep")


async def branch_off(node: Node) -> None:
    async with node.fork("p", "q", answers={"choose:1": "reject"}):
        pass


async def take_fork(node: Node) -> None:
    await node.promote("q", prefer="fork")


OPERATIONS: list[tuple[str, Callable[[Node], Awaitable[None]], type[b.Body]]] = [
    ("p", go_back, b.Rewound),
    ("q", branch_off, b.Forked),
    ("p", take_fork, b.Promoted),
]


@pytest.mark.parametrize(("process_id", "operate", "kind"), OPERATIONS)
async def test_an_operation_that_dies_anywhere_is_whole_or_nothing(
    log: MemoryLog, process_id: str, operate: Callable[[Node], Awaitable[None]], kind: type[b.Body]
) -> None:
    """Cut after each of its entries, the content is the old or the new one, and the same command then succeeds.

    Promptise goes back in two steps, and a crash between them leaves a mixture. ActiveGraph's ``fork_run`` copies one
    event after the other, so a crash leaves some of them, under an id that is used up.
    """
    async with Node.in_memory(log) as node:
        await cut_off(node)
        if kind is b.Promoted:
            await branch_off(node)
    begins = log.watermarks(0).high
    async with Node.in_memory(whole := cut_after(log, begins)) as node:
        await operate(node)
    before, after = (refold(one, process_id).content_hash for one in (log, whole))
    assert before != after
    found = []
    for cut in [*cuts(whole)][begins - 1 :]:
        found.append(bool(of_kind(cut, kind, process_id)))
        assert refold(cut, process_id).content_hash == (after if found[-1] else before)
        async with Node.in_memory(cut) as node:
            if kind is b.Forked and found[-1]:
                with pytest.raises(Refused, match="never used"):
                    await operate(node)
            else:
                await operate(node)
            done.clear()
            assert await node.run(shop, process_id) == ["reject", "last"]
        assert done == {"last": 1}
    assert found == [False, False, True]  # nothing yet, a claim, the entry


async def test_a_rewind_that_dies_while_it_compensates_goes_on_when_it_is_repeated(log: MemoryLog) -> None:
    """What was undone outside is not undone again; until the entry, the process goes on as if nothing was asked.

    Promptise: a rewind of several steps that nobody ends.
    """
    async with Node.in_memory(log) as node:
        await cut_off(node)
    begins = log.watermarks(0).high
    compensate: dict[str, Any] = {"answers": {"choose:1": "reject"}, "effects": "compensate"}
    async with Node.in_memory(whole := cut_after(log, begins)) as node:
        await node.rewind("p", **compensate)
    settled = []
    for cut in [*cuts(whole)][begins - 1 :]:
        settled.append(any(one.key == f"{UNDO}pay:1" for one in of_kind(cut, b.EffectSettled)))
        is_back = bool(of_kind(cut, b.Rewound))
        assert refold(cut, "p").context.get("choice") == (None if is_back else "pay")
        async with Node.in_memory(cut) as node:
            done.clear()
            await node.rewind("p", **compensate)
            assert await node.run(shop, "p") == ["reject", "last"]
        assert done == Counter({"last": 1}) + Counter({"took back goods": not settled[-1]})
    assert {*settled} == {False, True}


def left_behind(log: MemoryLog, process_id: str) -> Heartbeats:
    """Claim a process as a node on another host does, which then dies: its heartbeat stays as it is."""
    owner = Owner(log.append, log.partitions, process_id)
    owner.claim("node-far")
    assert owner.claim_id is not None
    heartbeats = Heartbeats(log, Settings(redis_url=None))
    heartbeats.publish(Heartbeat("node-far", "boot-1", (owner.claim_id,), 1))
    return heartbeats


async def test_an_id_that_a_fork_on_another_host_left_claimed_is_free_again(log: MemoryLog) -> None:
    """The fork is asked for once more, on a node that has just begun to watch: it waits until the owner is dead.

    ActiveGraph writes the row of a fork first: the id of one that died behind it is used up.
    """
    async with Node.in_memory(log) as node:
        await cut_off(node)
    left_behind(log, "q")
    async with Node.in_memory(log, owner_timeout_s=0.6, heartbeat_interval_s=0.1) as node:
        async with node.fork("p", "q") as fork:
            assert fork.state.lineage.parent_id == "p"
            content_hash = fork.state.content_hash
        assert content_hash == (await node.recover("p")).state.content_hash
        with pytest.raises(Refused, match="never used"):
            await node.fork("p", "q")
    assert len(of_kind(log, b.Forked, "q")) == 1


@pytest.mark.parametrize("told", [False, True])
async def test_a_claim_without_an_entry_uses_up_no_id(log: MemoryLog, told: bool) -> None:
    """For a fork, a rerun and a run alike, on this host at once; mail that came meanwhile stays."""
    async with Node.in_memory(log) as node:
        await node.run(shop, "p", None)
        for process_id in ("fork", "rerun", "run"):
            Owner(log.append, log.partitions, process_id).claim("node-gone")
            if told:
                await node.signal(process_id, "hello", 1)
    async with Node.in_memory(log, owner_timeout_s=0.3, heartbeat_interval_s=0.1) as node:
        async with node.fork("p", "fork", at=HistoryPoint.after("choose:1"), permissive=True) as fork:
            assert len(fork.state.mailbox) == told
        done.clear()
        assert await node.run(shop, "fork") == ["pay", "last"]
        assert (await node.rerun(shop, "p", "rerun")).is_same_outcome
        assert not done
        assert await node.run(shop, "run", None, new=True, wait_s=2) == ["pay", "last"]


async def test_an_id_that_a_living_node_has_claimed_is_not_taken_from_it(log: MemoryLog) -> None:
    """Two forks of one id at once: the owner's heartbeat moves, so the other one is refused in the end."""
    async with Node.in_memory(log) as node:
        await cut_off(node)
    quick: dict[str, Any] = {"owner_timeout_s": 0.6, "heartbeat_interval_s": 0.1}
    async with Node.in_memory(log, node_id="one", **quick) as one, Node.in_memory(log, node_id="two", **quick) as two:
        async with one.open("q") as process:
            with pytest.raises(OwnerAlive):
                await two.fork("p", "q")
            await process.update("mine", value=True)
        with pytest.raises(Refused, match="never used"):
            await two.fork("p", "q")
