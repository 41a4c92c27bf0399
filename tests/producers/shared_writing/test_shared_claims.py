"""The claims of processes that several nodes write to: who has them, who may take them, and when they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from idle_tailers import at_rest
from late_log import FAST, LateLog
from seekpoint.producers import Node, SharedProcess, SyncNode, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.shared_writing import shared_claim, shared_writes
from seekpoint.producers.shared_writing.shared_claim import SharedClaim
from seekpoint.schemas import MemoryLog, bodies
from seekpoint.schemas.errors import (
    AlreadyOpen,
    AppendConflict,
    ClaimLost,
    HandleClosed,
    ProcessFinished,
    Refused,
)


async def _shared(node: Node, process_id: str = "p") -> SharedProcess:
    return await node.open(process_id, shared=True)


# --- the claim
async def test_the_claim_stays_with_the_node_that_writes(node: Node, other: Node) -> None:
    """Until another one writes. Reading takes it from nobody."""
    mine, theirs = await _shared(node), await _shared(other)
    for number in range(5):
        await mine.update("a", number)
        assert (await theirs.read()).context == {"a": number}
    assert mine.state.epoch == 1
    await theirs.update("a", 5)
    await theirs.update("a", 6)
    assert (await mine.read()).epoch == 2


async def test_a_node_that_has_not_noticed_that_it_was_fenced_writes_its_entry_again(node: Node, other: Node) -> None:
    """The first copy lies behind the other node's claim, where no reader applies it."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 1)
    await at_rest(node)
    await theirs.record("work", 2)
    assert (await mine.record("work", 3)).seq == 3
    state = (await node.recover("p")).state
    assert (state.seq, state.stale_entries, state.forged_entries, state.degraded) == (3, 1, 0, None)


async def test_a_claim_takes_no_recovery_once_the_process_is_followed(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the claim moves between the nodes."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 0)
    await theirs.record("work", 0)

    async def no_recovery(*_: Any, **__: Any) -> None:
        raise AssertionError("a recovery")

    for one in (node, other):
        monkeypatch.setattr(runtime_of(one).recovery, "recover", no_recovery)
    for number in range(6):
        await (mine, theirs)[number % 2].record("work", number)
    assert mine.state.epoch > 5


async def test_nodes_that_write_at_once_leave_each_other_a_turn(node: Node, other: Node) -> None:
    """A claim is used before the next one: so most claims write something, and few entries are fenced."""

    async def write(thread: SharedProcess) -> None:
        for number in range(30):
            await thread.record("work", number)

    await asyncio.gather(write(await _shared(node)), write(await _shared(other)))
    state = (await node.recover("p")).state
    assert state.seq == 60
    assert state.epoch <= 62
    assert state.lost_claims + state.stale_entries <= 60


async def test_a_claim_is_used_before_the_next_one(node: Node, other: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that has claimed the process gets the time to write: the others wait for it, and for no longer."""
    monkeypatch.setattr(shared_claim, "_TURN_MIN_S", 60.0)
    monkeypatch.setattr(shared_claim, "_TURN_MAX_S", 60.0)
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 1)
    appends = runtime_of(other).shared_writes
    assert isinstance(appends, shared_writes.SharedWrites)
    claim = appends._of("p").claim
    await claim.to_end()
    assert await claim.claim() is not None
    here = runtime_of(node).shared_writes
    assert isinstance(here, shared_writes.SharedWrites)
    await here._of("p").claim.to_end()  # a node that does not know of the claim yet writes behind it first
    waiting = asyncio.create_task(mine.record("work", 3))
    await asyncio.sleep(0.1)
    assert (await theirs.record("work", 2)).seq == 2
    assert (await waiting).seq == 3
    state = (await node.recover("p")).state
    assert (state.epoch, state.stale_entries, state.lost_claims) == (3, 0, 0)


async def test_a_node_that_claimed_and_died_holds_nobody_up(node: Node, other: Node) -> None:
    """Its turn ends by itself, and its claim needs no release."""
    mine, theirs = await _shared(node), await _shared(other)
    await mine.record("work", 1)
    appends = runtime_of(other).shared_writes
    assert isinstance(appends, shared_writes.SharedWrites)
    claim = appends._of("p").claim
    await claim.to_end()
    assert await claim.claim() is not None
    async with asyncio.timeout(5):
        assert (await mine.record("work", 2)).seq == 2
        assert (await theirs.record("work", 3)).seq == 3


# --- owners, agents, ends
async def test_one_owner_on_the_same_node_takes_the_process_and_gives_it_back(node: Node) -> None:
    """While it is open for one owner, shared writing says so; nothing of it is lost."""
    thread = await _shared(node)
    await thread.record("work", 0)
    pending = [asyncio.create_task(thread.record("work", number)) for number in range(5)]
    for _ in range(1_000):
        await asyncio.sleep(0)
        if runtime_of(node).shared_handles["p"].pending:  # they are on their way
            break
    async with node.open("p") as process:
        await process.record("owner")
        with pytest.raises(AlreadyOpen, match="for one owner"):
            await thread.record("work", 6)
        assert (await thread.read()).owner is not None
    found = await asyncio.gather(*pending, return_exceptions=True)
    written = [one for one in found if not isinstance(one, BaseException)]
    assert all(isinstance(one, AlreadyOpen) for one in found if isinstance(one, BaseException))
    state = await thread.read()
    assert state.seq == len(written) + 3
    assert (await thread.record("work", 7)).seq == state.seq + 1


async def test_a_shared_process_looks_free_to_every_owner(node: Node, other: Node) -> None:
    """No heartbeat names its claim, so an open needs neither patience nor force."""
    await (await _shared(node)).record("work", 1)
    runtime = runtime_of(node)
    assert runtime.shared_handles["p"].claim_id not in runtime.heartbeater._heartbeat().claim_ids
    async with other.open("p") as process:
        assert process.state.seq == 1


async def test_a_process_of_an_agent_takes_no_writes_from_outside(node: Node, other: Node) -> None:
    """Its writes are calls of its code."""

    @agent("short")
    async def short(process: Any, given: Any) -> None:
        await process.update("a", 1)
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        await node.run(short, "p")
    with pytest.raises(Refused, match="an agent runs as the process") as caught:
        await (await _shared(other)).record("work", 1)
    assert caught.value.agent == "short"


async def test_a_finished_process_takes_no_more(node: Node, other: Node) -> None:
    """Whatever seq is expected."""
    thread = await _shared(other)
    await thread.record("work", 1)
    async with node.open("p") as process:
        await process.finish("done")
    for expected in (None, 1, 2):
        with pytest.raises(ProcessFinished):
            await thread.record("work", 2, expected_seq=expected)
    assert (await thread.read()).result == "done"


# --- limits, ends of nodes
async def test_a_node_keeps_as_many_processes_as_it_may(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was used last stays; whoever was dropped comes back with the next append."""
    monkeypatch.setattr(shared_writes, "KEPT_MAX", 3)
    for number in range(8):
        await node.append(f"p{number}", bodies.Custom("work", "1"))
    assert set(runtime_of(node).shared_handles) == {"p5", "p6", "p7"}
    monkeypatch.setattr(shared_writes, "KEPT_MAX", 100)
    monkeypatch.setattr(shared_writes, "KEPT_BYTES_MAX", 20_000)
    for number in range(8):
        await node.append(f"p{number}", bodies.ContextUpdated("a", '"' + "x" * 9_000 + '"'))
    assert len(runtime_of(node).shared_handles) == 3
    assert [(await other.append(f"p{number}", bodies.Custom("work", "2"))).seq for number in range(8)] == [3] * 8


async def test_a_cancelled_caller_takes_nobody_with_it(node: Node) -> None:
    """Neither those of the same round nor the next ones; what was not sent yet is not written."""
    thread = await _shared(node)
    tasks = [asyncio.create_task(thread.record("work", number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[1], asyncio.CancelledError)
    assert [one.seq for one in found if not isinstance(one, BaseException)] == [1, 2, 3]
    assert (await thread.record("work", 5)).seq == 4


async def test_who_waits_as_the_node_closes_is_told() -> None:
    """The entry may be in the log; a node that is closed takes no more."""
    log = LateLog(0)
    node = await Node.in_memory(log, **{**FAST, "append_timeout_s": 60.0})
    thread = await _shared(node)
    await thread.record("work", 1)
    log.refuse_appends()
    waiting = [asyncio.create_task(thread.record("work", number)) for number in (2, 3)]
    await asyncio.sleep(0.05)
    await node.close()
    for one in waiting:
        with pytest.raises(HandleClosed):
            await one
    with pytest.raises(HandleClosed):
        await thread.record("work", 4)


async def test_a_process_that_is_taken_again_and_again_ends_in_a_typed_error(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was written, and the caller may try again."""

    async def lost(self: SharedClaim) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(SharedClaim, "claim", lost)
    async with Node.in_memory(log, append_timeout_s=0.05) as node:
        with pytest.raises(ClaimLost, match="nothing was written"):
            await (await _shared(node)).record("work", 1)
        assert not (await node.recover("p", missing_ok=True)).known


def test_code_that_is_not_async_writes_the_same_way(log: MemoryLog) -> None:
    """The same calls without await, from any thread."""
    with SyncNode.in_memory(log) as node, SyncNode.in_memory(log) as other:
        with node.open("p", shared=True) as thread, other.open("p", shared=True) as theirs:
            assert thread.update("a", 1).seq == 1
            assert theirs.record("work", 2, expected_seq=1).seq == 2
            with pytest.raises(AppendConflict) as caught:
                thread.update("a", 3, expected_seq=1)
            assert caught.value.state.seq == thread.read().seq == theirs.state.seq == 2
        assert node.append("p", bodies.Custom("work", "3")).seq == 3
