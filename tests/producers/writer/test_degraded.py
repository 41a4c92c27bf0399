"""Degraded processes, and healing at the node: what needs a person, and what does not. In memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from open_processes import handle_of
from seekpoint.producers import Node, Process, VirtualClock, agent
from seekpoint.producers.process import durable_side
from seekpoint.producers.writer.kafka_writer import GUARANTEED
from seekpoint.schemas import Entry, MemoryLog, bodies, encode, new_id
from seekpoint.schemas.errors import AppendTimeout, HandleClosed, JournalUnavailable, ProcessDegraded
from seekpoint.schemas.log.log_ports import Batch

FAST: dict[str, Any] = {"append_timeout_s": 0.1, "heal_timeout_s": 5.0, "producer_drain_s": 0.01}


async def leave_a_gap(log: MemoryLog, node: Node) -> None:
    """An owner's entry whose predecessor is nowhere: real loss."""
    process = await node.open("p")
    await process.update("a", 1)
    claim = process.state.owner
    for seq in (3, 4):
        lost = Entry(new_id(), "p", seq, 1, claim, None, 0, None, None, None, bodies.ContextUpdated("a", str(seq)))
        log.append(0, b"p", encode(lost))
    durable_side(process).abandon()


async def test_real_loss_needs_a_person_who_accepts_it() -> None:
    """A gap that no owner explains: opening raises ProcessDegraded with the facts until somebody accepts it."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        await leave_a_gap(log, node)
        for take_over in (False, True):
            with pytest.raises(ProcessDegraded) as degraded:
                await node.open("p", take_over=take_over)
            facts = degraded.value.facts
            assert (facts["expected_seq"], facts["found_seq"], facts["abandoned"]) == (2, 3, 2)
        await node.signal("p", "still delivered")
        async with node.open("p", take_over=True, accept_degraded=True) as process:
            assert process.state.context == {"a": 1}
            assert process.state.degraded is None
            assert len(process.state.mailbox) == 1
            await process.update("a", 2)
        async with node.open("p") as process:
            assert process.state.context == {"a": 2}


class Dark(MemoryLog):
    """A log that nobody can read while it is dark."""

    dark = False

    def read(self, *arguments: Any, **options: Any) -> Iterator[Batch]:
        """As ever, if it is not."""
        if self.dark:
            raise JournalUnavailable("it is dark")
        return super().read(*arguments, **options)


async def test_an_entry_that_is_read_back_needs_no_acknowledgement() -> None:
    """It landed, nobody was told, and the tailer sees it: that says as much, and nothing has to be healed."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, **FAST, confirm_interval_s=0.1) as node, node.open("p") as process:
        await process.confirm()
        log.drop_acknowledgements()
        assert (await asyncio.wait_for(process.update("a", 2), 60)).seq == 1
        log.heal()
        assert (process.state.epoch, process.state.context) == (1, {"a": 2})


async def test_a_lost_acknowledgement_heals_without_anybody_noticing() -> None:
    """The append landed, nobody was told or can read it: after the deadline the handle claims again and learns it."""
    log = Dark(partitions=1)
    async with Node.in_memory(log, **FAST) as node, node.open("p") as process:
        await process.update("a", 1)
        log.drop_acknowledgements()
        log.dark = True
        under_way = asyncio.create_task(process.update("a", 2))
        await asyncio.sleep(0.2)
        log.heal()
        log.dark = False
        assert (await asyncio.wait_for(under_way, 60)).seq == 2
        await process.update("a", 3)
        assert (process.state.epoch, process.state.seq, process.state.context) == (2, 3, {"a": 3})


async def test_a_gap_that_its_owner_made_is_healed_by_its_owner() -> None:
    """The second of two landed, the first did not: the owner's claim explains it, and both are in the log once."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, **FAST) as node, node.open("p") as process:
        await process.record("work", 0)
        log.refuse_appends()
        under_way = asyncio.gather(process.record("work", 1), process.record("work", 2))
        await asyncio.sleep(0.05)
        second = handle_of(process).pending[1]
        log.append(0, b"p", second.value)
        await asyncio.sleep(0.3)  # past the deadline: the appender is retired, its two records never land
        log.heal()
        await asyncio.wait_for(under_way, 60)
        assert process.state.degraded is None
        assert process.state.seq == 3
        recovered = await node.recover("p")
        assert recovered.state.hash == process.state.hash


async def test_an_outage_longer_than_both_deadlines_is_a_typed_error_and_the_handle_is_closed() -> None:
    """AppendTimeout for the append and whatever follows; the process can be opened again once the log answers."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, **FAST) as node:
        process = await node.open("p")
        log.refuse_appends()
        with pytest.raises(AppendTimeout):
            await asyncio.wait_for(process.update("a", 1), 60)
        with pytest.raises((AppendTimeout, HandleClosed)):
            await process.update("a", 2)
        log.heal()
        async with node.open("p") as again:  # also where the claim by which the closed handle healed comes first
            await again.update("a", 3)
            assert again.state.context["a"] == 3


async def test_an_outage_in_the_middle_of_a_long_step_repeats_nothing_and_needs_nobody() -> None:
    """Forty minutes of work, and a log that takes nothing for longer than the append deadline when they end."""
    log, clock, ran = MemoryLog(partitions=1), VirtualClock(), []

    async def work() -> str:
        log.refuse_appends()
        ran.append("work")
        await clock.sleep(40 * 60)
        asyncio.get_running_loop().call_later(1.5, log.heal)  # behind the deadline: the appender is retired by then
        return "done"

    @agent("worker")
    async def worker(process: Process, given: Any) -> Any:
        return [await process.step("work", work), await process.step("after", str, 1)]

    async with Node.in_memory(log, clock=clock, **FAST) as node:
        assert await asyncio.wait_for(node.run(worker, "p"), 60) == ["done", "1"]
        state = (await node.recover("p")).state
    assert (state.degraded, state.epoch, ran) == (None, 2, ["work"])  # it claimed again, and said its step's end again


def test_what_the_promises_rest_on_is_set_on_every_producer() -> None:
    """O5 and section 3: acknowledged by all, idempotent, gapless, never expired by the client."""
    assert GUARANTEED == {
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "message.timeout.ms": 0,
    }


@pytest.mark.parametrize("end", ["release", "finish"])
@pytest.mark.parametrize("fault", ["drop_acknowledgements", "refuse_appends"])
async def test_an_end_in_doubt_heals_and_ends_the_process(fault: str, end: str) -> None:
    """O5: a release or finish past its deadline, landed or not, is only a delay: then the process has no owner."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, **FAST) as node:
        process = await node.open("p")
        getattr(log, fault)()
        under_way = asyncio.create_task(process.update("a", 1))
        leaving = asyncio.create_task(getattr(process, end)())
        await asyncio.sleep(0.2)
        log.heal()
        assert (await asyncio.wait_for(under_way, 60)).seq == 1
        await asyncio.wait_for(leaving, 60)
        state = (await node.recover("p")).state
        assert (state.owner, state.degraded, state.finished) == (None, None, end == "finish")


@pytest.mark.parametrize("after_s", [0.02, 0.15])
async def test_nobody_waits_for_a_handle_whose_release_was_cancelled(after_s: float) -> None:
    """While Kafka is silent, before or while it heals: the other calls of that handle raise, they do not hang."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log, **FAST) as node:
        process = await node.open("p")
        log.refuse_appends()
        under_way = asyncio.create_task(process.update("a", 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.release(), after_s)
        with pytest.raises(HandleClosed):
            await asyncio.wait_for(under_way, 60)
        log.heal()
