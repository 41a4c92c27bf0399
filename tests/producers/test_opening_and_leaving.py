"""Who may open a process, what stays when its owner leaves, and how an owner learns that it has lost it. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from folding import refold
from idle_tailers import at_rest
from seekpoint.producers import Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog, partition_of
from seekpoint.schemas.errors import (
    AlreadyOpen,
    ClaimLost,
    Fenced,
    HandleClosed,
    InvalidName,
    JournalUnavailable,
    OwnerAlive,
    Refused,
)
from seekpoint.schemas.log.log_ports import Batch


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


async def _open(node: Node, process_id: str) -> Process:
    return await node.open(process_id)


async def test_one_handle_a_process_on_a_node(log: MemoryLog) -> None:
    """A second open of an open process on one node is a typed refusal."""
    async with Node.in_memory(log) as node:
        async with node.open("p"):
            with pytest.raises(AlreadyOpen):
                await node.open("p")
        async with node.open("p") as process:
            assert process.state.epoch == 2


async def test_a_node_that_was_not_started_says_so(log: MemoryLog) -> None:
    """Its ``async with`` was forgotten: not an assertion without a word."""
    node = Node.in_memory(log)
    with pytest.raises(Refused, match="was not started; use it inside async with"):
        await node.open("p")
    with pytest.raises(Refused, match="was not started"):
        await node.signal("p", "go")
    async with node, node.open("p") as process:
        assert process.state.epoch == 1


async def test_a_handle_that_is_over_does_not_keep_its_process_from_being_opened_again(log: MemoryLog) -> None:
    """Without ``async with``: fenced, or let go, and opened again at once on the same node."""
    async with Node.in_memory(log) as node, Node.in_memory(log) as other:
        process = await node.open("p")
        await at_rest(node)
        async with other.open("p", take_over=True):
            await process.update("a", 1)
        with pytest.raises(Fenced):
            await process.confirm()
        again = await node.open("p")
        await again.update("a", 2)
        durable_side(process).abandon()
        with pytest.raises(AlreadyOpen):
            await node.open("p")
        durable_side(again).abandon()
        async with node.open("p") as last:
            assert last.state.context == {"a": 2}


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02])
async def test_a_cancelled_open_keeps_nobody_from_opening(log: MemoryLog, after_s: float) -> None:
    """Whether its claim was written or not: the next open on this node goes on at once."""
    async with Node.in_memory(log) as node:
        opening = asyncio.create_task(_open(node, "p"))
        await asyncio.sleep(after_s)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        if not opening.cancelled():
            durable_side(opening.result()).abandon()
        assert not runtime_of(node).heartbeater._claims(), "a claim that nobody holds is named for ever"
        async with node.open("p") as process:
            await process.update("a", 1)


async def test_process_ids_are_checked(log: MemoryLog) -> None:
    """1 to 200 bytes, no control characters."""
    async with Node.in_memory(log) as node:
        for wrong in ("", "x" * 201, "a\nb", "a\x00"):
            with pytest.raises(InvalidName):
                await node.open(wrong)
        async with node.open("ж" * 100):
            pass


async def test_a_living_owner_is_not_taken_over_unasked(log: MemoryLog) -> None:
    """O6: refused while it looks alive; taken with take_over; free at once after a release."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as two:
        async with one.open("p") as process:
            await process.update("a", 1)
            with pytest.raises(OwnerAlive):
                await two.open("p")
        async with two.open("p") as taken:
            assert taken.state.context == {"a": 1}


async def test_nodes_that_claim_at_once_have_one_winner_an_epoch(log: MemoryLog) -> None:
    """O2: only the claim that the fold names owner may go on; the others are told that they lost."""
    nodes = [await Node.in_memory(log) for _ in range(5)]
    outcomes = await asyncio.gather(*(_open(node, "p") for node in nodes), return_exceptions=True)
    won = [outcome for outcome in outcomes if isinstance(outcome, Process)]
    assert len(won) == 1
    assert all(isinstance(outcome, ClaimLost) for outcome in outcomes if not isinstance(outcome, Process))
    assert refold(log, "p").epoch == 1
    for node in nodes:
        await node.close()


async def test_leaving_releases_and_nothing_can_be_written_after(log: MemoryLog) -> None:
    """After the block the process has no owner, and the handle says so."""
    async with Node.in_memory(log) as node:
        async with node.open("p") as process:
            await process.update("a", 1)
        assert refold(log, "p").owner is None
        with pytest.raises(HandleClosed):
            await process.update("a", 2)


async def test_an_exception_is_recorded_before_the_release(log: MemoryLog) -> None:
    """The journal tells what the agent died of, and the exception goes on."""
    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="broken"):
            async with node.open("p"):
                raise ValueError("broken")
        state = refold(log, "p")
        assert (state.last_kind, state.owner, state.seq) == ("error_recorded", None, 2)


async def test_an_exception_of_any_size_is_recorded_and_goes_on(log: MemoryLog) -> None:
    """A text larger than an entry is cut, in an invocation and on the way out; the process is released all the same."""
    async with Node.in_memory(log) as node:
        with pytest.raises(ValueError, match="xxx"):
            async with node.open("p") as process, process.invocation("message"):
                raise ValueError("x" * 2_000_000)
        state = refold(log, "p")
        assert (state.last_kind, state.invocations, state.owner) == ("error_recorded", 1, None)


async def test_a_fenced_owner_that_leaves_is_told_even_if_its_last_call_went_well(log: MemoryLog) -> None:
    """O4: the release waits for its confirmation; a fence found meanwhile is raised on the way out."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as two:
        with pytest.raises(Fenced) as told:
            async with one.open("p") as process:
                await at_rest(one)
                async with two.open("p", take_over=True) as heir:
                    await heir.update("a", 1)
                await process.update("a", 2)
        assert told.value.fenced_entries == 2
        assert runtime_of(one).metrics.fenced_entries == 2
        with pytest.raises(Fenced):
            async with one.open("q") as process:
                await at_rest(one)
                async with two.open("q", take_over=True):
                    pass
                await process.update("a", 2)
                with pytest.raises(Fenced):
                    await process.confirm()


async def test_a_fenced_owner_is_told_within_the_confirm_interval(log: MemoryLog) -> None:
    """O4: after its next append, an owner that lost its process learns it from the rounds, without asking."""
    async with Node.in_memory(log, confirm_interval_s=0.2) as one, Node.in_memory(log) as two:
        process = await one.open("p")
        await at_rest(one)
        async with two.open("p", take_over=True):
            await process.update("a", 2)
        await asyncio.sleep(0.4)
        with pytest.raises(Fenced):
            await process.update("a", 3)
        durable_side(process).abandon()


async def test_a_partition_that_cannot_be_read_keeps_no_other_owner_from_being_told(log: MemoryLog) -> None:
    """O4: confirmation waits for the one; the owner in the other is fenced within the interval all the same."""
    ids = {partition_of(name.encode(), 2): name for name in ("a", "b", "c", "d")}
    async with Node.in_memory(log, confirm_interval_s=0.2) as one, Node.in_memory(log) as two:
        stuck, told = await one.open(ids[0]), await one.open(ids[1])
        read = log.read

        def fails(partition: int, *arguments: Any) -> Iterator[Batch]:
            if partition == 0:
                raise JournalUnavailable("this partition has no leader")
            return read(partition, *arguments)

        await stuck.confirm()
        await at_rest(one)
        log.read = fails  # type: ignore[method-assign,assignment]  # the one fault that the log has no name for
        async with two.open(ids[1], take_over=True):
            await told.update("a", 1)
            await stuck.update("a", 1)
        await asyncio.sleep(0.4)
        with pytest.raises(Fenced):
            await told.update("a", 2)
        log.read = read  # type: ignore[method-assign]
        durable_side(stuck).abandon()
        durable_side(told).abandon()
