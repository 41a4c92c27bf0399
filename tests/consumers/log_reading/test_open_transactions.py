"""An open transaction of another producer hides the end of a partition: no old state passes for the present one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from open_processes import handle_of
from owners import Owner
from raw_kafka import RawKafka
from seekpoint.console.cli import app
from seekpoint.console.exit_codes import EXIT_UNREACHABLE
from seekpoint.consumers import Recovery
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import ConfirmTimeout, TransactionOpen, UnknownProcess

QUICK = Settings(redis_url=None, transaction_wait_s=0.2, confirm_timeout_s=0.3)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


@pytest.fixture
async def recovery(log: MemoryLog) -> AsyncIterator[Recovery]:
    """A recovery with a short transaction wait."""
    async with Recovery.in_memory(log, QUICK) as recovery:
        yield recovery


@pytest.fixture
def owner(log: MemoryLog) -> Owner:
    """The owner of ``case-1``: two of its entries can be read, two are hidden."""
    owner = Owner(log.append, 1, "case-1")
    owner.claim()
    owner.update("city", '"Oslo"')
    log.hide(0)
    owner.update("city", '"Rome"')
    owner.update("city", '"Bern"')
    return owner


async def test_a_report_says_that_the_state_may_be_old(log: MemoryLog, owner: Owner, recovery: Recovery) -> None:
    """The report says in a field and in a note how much is hidden."""
    found = await recovery.recover("case-1")
    assert (found.state.context, found.report.hidden) == ({"city": "Oslo"}, 2)
    assert any("an open transaction hides 2 offsets from 2 on" in note for note in found.report.notes)
    many = await recovery.recover_many()
    assert (many["case-1"].report.hidden, many["case-1"].report.notes) == (2, found.report.notes)
    log.reveal(0)
    found = await recovery.recover("case-1")
    assert (found.state.context, found.report.hidden, found.report.notes) == ({"city": "Bern"}, 0, ())


async def test_a_caller_that_needs_the_present_state_gets_an_error(
    log: MemoryLog, owner: Owner, recovery: Recovery
) -> None:
    """The error names the offset and says what to do about the transaction."""
    with pytest.raises(TransactionOpen) as caught:
        await recovery.recover("case-1", must_be_current=True)
    assert (caught.value.partition, caught.value.offset, caught.value.end) == (0, 2, 4)
    assert "kafka-transactions.sh" in caught.value.hint
    with pytest.raises(TransactionOpen):
        await recovery.recover_many(["case-1"], must_be_current=True)
    log.reveal(0)
    assert (await recovery.recover("case-1", must_be_current=True)).state.seq == 3


async def test_a_transaction_that_ends_in_time_only_costs_time(log: MemoryLog, owner: Owner) -> None:
    """The recovery waits for its end and returns the present state."""
    later = threading.Timer(0.1, log.reveal, [0])
    later.start()
    async with Recovery.in_memory(log, replace(QUICK, transaction_wait_s=30.0)) as recovery:
        found = await recovery.recover("case-1")
    later.join()
    assert (found.state.seq, found.report.hidden) == (3, 0)


async def test_what_is_hidden_is_not_proven_absent(log: MemoryLog, owner: Owner, recovery: Recovery) -> None:
    """That holds for a process, a seq and an offset. What lies before the transaction is still certain."""
    with pytest.raises(TransactionOpen):
        await recovery.recover("case-2")
    with pytest.raises(TransactionOpen):
        await recovery.recover("case-1", at_seq=3)
    with pytest.raises(TransactionOpen):
        await recovery.recover("case-1", at_offset=3)
    past = await recovery.recover("case-1", at_offset=1)
    assert (past.state.seq, past.report.hidden) == (1, 0)
    assert (await recovery.recover("case-1", at_seq=1)).report.hidden == 0
    log.reveal(0)
    with pytest.raises(UnknownProcess):
        await recovery.recover("case-2")


async def test_a_transaction_that_does_not_end_is_waited_for_once(log: MemoryLog, owner: Owner) -> None:
    """Later calls wait for it only a moment. The next transaction is waited for again."""
    settings = replace(QUICK, transaction_wait_s=1.0)
    async with Recovery.in_memory(log, settings) as recovery:
        began = time.monotonic()
        for _ in range(5):
            assert (await recovery.recover("case-1")).report.hidden == 2
        assert 1.0 <= time.monotonic() - began < 4.0
        log.reveal(0)
        assert (await recovery.recover("case-1")).state.context == {"city": "Bern"}
        log.hide(0)
        owner.update("city", '"Graz"')
        later = threading.Timer(0.5, log.reveal, [0])
        later.start()
        assert (await recovery.recover("case-1")).state.context == {"city": "Graz"}
    later.join()


async def test_a_moment_before_what_is_hidden_is_certain(log: MemoryLog) -> None:
    """A recovery as of such a time neither waits nor notes anything. A later time may lie behind the transaction."""
    stamps = iter(range(1_000, 100_000, 1_000))
    owner = Owner(lambda partition, key, value: log.append(partition, key, value, next(stamps)), 1, "case-1")
    owner.claim()
    owner.update("city", '"Oslo"')
    owner.update("city", '"Rome"')
    log.hide(0)
    owner.update("city", '"Bern"')
    async with Recovery.in_memory(log, replace(QUICK, transaction_wait_s=60.0)) as recovery, asyncio.timeout(20):
        past = await recovery.recover("case-1", at_time=2.5, must_be_current=True)
        assert (past.state.context, past.report.hidden) == ({"city": "Oslo"}, 0)
    async with Recovery.in_memory(log, QUICK) as recovery:
        for moment in (4.0, 9.0):
            found = await recovery.recover("case-1", at_time=moment)
            assert (found.state.context, found.report.hidden) == ({"city": "Rome"}, 1)
        with pytest.raises(TransactionOpen):
            await recovery.recover("case-1", at_time=9.0, must_be_current=True)


async def test_an_open_claims_nothing_that_it_cannot_see(log: MemoryLog, owner: Owner) -> None:
    """It is refused before the claim is sent, and succeeds once the transaction has ended."""
    async with Node.in_memory(log, transaction_wait_s=0.2, confirm_timeout_s=0.3) as node:
        high = log.extent(0).end
        with pytest.raises(TransactionOpen):
            await node.open("case-1", take_over=True)
        assert log.extent(0).end == high
        log.reveal(0)
        async with node.open("case-1", take_over=True) as process:
            assert process.state.context == {"city": "Bern"}


async def test_an_owner_learns_why_its_entries_are_not_confirmed(log: MemoryLog) -> None:
    """The error comes in time and names the cause. Afterwards the owner goes on."""
    async with (
        Node.in_memory(log, transaction_wait_s=0.2, confirm_timeout_s=0.3) as node,
        node.open("case-1") as process,
    ):
        log.hide(0)
        await process.update("city", "Rome")
        with pytest.raises(ConfirmTimeout, match="open transaction") as caught:
            await process.confirm()
        assert "kafka-transactions.sh" in caught.value.hint
        with pytest.raises(TransactionOpen):  # presumed to be new: nothing is recovered before the claim
            await node.open("case-9")
        log.reveal(0)
        await process.confirm()


@pytest.mark.cluster
async def test_a_transaction_on_a_real_kafka(journal: Settings) -> None:
    """A producer outside of Seekpoint holds back what an owner wrote behind its record."""
    settings = replace(journal, redis_url=None, transaction_wait_s=0.5)
    async with Node.connect(settings) as node:
        process = await node.open("case-1")
        await process.update("city", "Oslo")
        await process.confirm()
        raw = RawKafka(settings)
        foreign = raw.transaction()
        raw.write_in(foreign, handle_of(process).partition, [(b"case-1", b"junk", 1_000)])
        await process.update("city", "Rome")
        async with Recovery.connect(settings) as recovery:
            found = await recovery.recover("case-1")
            assert (found.state.context["city"], found.report.hidden) == ("Oslo", 2)
            with pytest.raises(TransactionOpen):
                await recovery.recover("case-1", must_be_current=True)
            environ = {
                "SEEKPOINT_JOURNAL": settings.journal,
                "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
                "SEEKPOINT_REDIS_URL": "",
                "SEEKPOINT_TRANSACTION_WAIT_S": "0.5",
            }
            command = ["recover", "case-1", "--must-be-current"]
            told = await asyncio.to_thread(CliRunner().invoke, app, command, env=environ)
            assert told.exit_code == EXIT_UNREACHABLE, told.output
            await asyncio.to_thread(foreign.abort_transaction, 20)
        async with Recovery.connect(settings) as recovery:
            found = await recovery.recover("case-1", must_be_current=True)
            assert (found.state.context["city"], found.report.hidden) == ("Rome", 0)
        await process.release()
