"""Who may open a process, what stays when its owner leaves, and how an owner learns that it has lost it. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from folding import refold
from idle_tailers import at_rest
from seekpoint.producers import Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.schemas import Entry, MemoryLog, bodies, encode, new_id, partition_of
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


class RacedLog(MemoryLog):
    """A log in which another claim comes right before the first one."""

    rival: Callable[[Entry], Entry] | None = None

    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        entry = None if value is None or self.rival is None else self.codec.decode(value)
        if entry is not None and isinstance(entry.body, bodies.Claim) and self.rival is not None:
            rival, self.rival = self.rival, None
            super().append(partition, key, encode(rival(entry)))
        return super().append(partition, key, value, timestamp_ms)


def rival_of(boot_id: str | None) -> Callable[[Entry], Entry]:
    """Return what makes the rival of a claim: by this boot, or by the one that claims."""

    def rival(entry: Entry) -> Entry:
        body = entry.body
        assert isinstance(body, bodies.Claim)
        if boot_id is not None:
            body = replace(body, node_id="other", boot_id=boot_id)
        return entry._replace(id=new_id(), body=body)

    return rival


@pytest.mark.parametrize("take_over", [False, True])
async def test_a_late_claim_of_the_node_itself_is_no_other_owner(take_over: bool) -> None:
    """After an outage a claim may arrive of which nobody knew whether it would."""
    log = RacedLog(2)
    async with Node.in_memory(log) as node:
        async with node.open("p") as process:
            await process.update("a", 1)
        log.rival = rival_of(None)
        async with node.open("p", take_over=take_over) as process:
            await process.update("a", 2)
        assert refold(log, "p").lost_claims == 1
        assert refold(log, "p").epoch == 3


async def test_an_open_waits_in_a_race_of_claims_too() -> None:
    """``wait_s`` waits for the owner that came first; without it each error says what to do."""
    raced = RacedLog(2)
    async with Node.in_memory(raced, owner_timeout_s=0.3, heartbeat_interval_s=0.1) as node:
        async with node.open("p"):
            pass
        raced.rival = rival_of("gone")
        with pytest.raises(ClaimLost, match=r"wait for it \(wait_s=\)"):
            await node.open("p")
        raced.rival = rival_of("gone")
        async with node.open("p", wait_s=30.0) as process:
            await process.update("a", 1)
        raced.rival = rival_of("gone")
        with pytest.raises(ClaimLost):
            await node.open("p", take_over=True, wait_s=30.0)


async def test_who_meets_an_owner_learns_whether_it_is_known_to_live(log: MemoryLog) -> None:
    """An owner that nobody has watched yet may be dead: the advice is the time after which it is known."""
    async with (
        Node.in_memory(log, owner_timeout_s=90.0, heartbeat_interval_s=60.0) as one,
        Node.in_memory(log, owner_timeout_s=0.3, heartbeat_interval_s=0.1) as two,
    ):
        await one.open("p")
        with pytest.raises(OwnerAlive, match=r"open it with wait_s=1\.5"):
            await two.open("p")
        async with two.open("p", wait_s=1.5):
            with pytest.raises(AlreadyOpen, match="if an agent runs as it"):
                await two.open("p")


async def test_a_process_that_is_being_opened_has_no_handle_yet(log: MemoryLog) -> None:
    """The advice names the open that is under way."""
    async with Node.in_memory(log) as node:
        outcomes = await asyncio.gather(_open(node, "p"), _open(node, "p"), return_exceptions=True)
        [refused] = [one for one in outcomes if isinstance(one, BaseException)]
        assert isinstance(refused, AlreadyOpen)
        assert "wait for that open" in str(refused)


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
