"""A transaction of another producer that is open in the inbox: whoever waits for submissions is told of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from raw_kafka import RawKafka
from seekpoint.console.services.facts.checkup import JournalHealth, transactions
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.log_reading.stable_end import hidden_submissions
from seekpoint.producers import Client, Node, Process, Worker, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.worker import submission_intake
from seekpoint.producers.worker.submission_intake import SubmissionIntake
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.errors import ResultTimeout, TransactionOpen


@agent("greet")
async def greet(process: Process, name: str) -> str:
    return await process.step("one", str, name)


@pytest.mark.cluster
async def test_a_client_and_a_worker_name_the_transaction(
    journal: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Both look well otherwise. Once it ends, the run is executed."""
    monkeypatch.setattr(submission_intake, "_LOOK_S", 0.0)
    monkeypatch.setattr("seekpoint.producers.worker.agent_worker._LOOK_AT_TAILS_S", 0.2)
    raw = RawKafka(journal)
    producer = raw.transaction()
    for partition in range(journal.partitions):
        raw.write_in(producer, partition, [(b"x", b"foreign", 1_000)], journal.topic_name("inbox"))
    with caplog.at_level(logging.WARNING, "seekpoint.producers"):
        async with Worker([greet], journal), Client.connect(journal) as client:
            run = await client.submit("greet", "p", "x")
            with pytest.raises(ResultTimeout) as late:
                await run.result(3)
            assert "open transaction" in late.value.hint
            async with asyncio.timeout(60):
                while "submissions cannot be read" not in caplog.text:  # noqa: ASYNC110  # no event for it
                    await asyncio.sleep(0.1)
            reader = KafkaReader(journal)
            found = hidden_submissions(reader, 0)
            assert found is not None
            assert (found.partition, found.topic) == (0, journal.topic_name("inbox"))
            producer.abort_transaction(10)
            assert await run.result(60) == "x"
            assert hidden_submissions(reader, 0) is None
            reader.close()


async def test_a_transaction_that_ends_at_once_is_no_news(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what two looks find hidden from one offset on is said."""
    offsets = iter([7, None, 9, 9])

    def found(log: object, partition: int) -> TransactionOpen | None:
        offset = next(offsets)
        return None if offset is None else TransactionOpen("hidden", partition=partition, offset=offset)

    monkeypatch.setattr(submission_intake, "_LOOK_S", 0.0)
    monkeypatch.setattr(submission_intake, "hidden_submissions", found)
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        intake = SubmissionIntake(runtime_of(node), None, lambda partitions: None, "g")  # type: ignore[arg-type]
        intake._assigned = frozenset({0})
        for said in (0, 0, 0, 1):
            await intake.look_for_transactions()
            assert caplog.text.count("submissions cannot be read") == said


def test_a_journal_in_a_file_has_no_transactions() -> None:
    assert hidden_submissions(MemoryLog(), 0) is None


def test_the_doctor_says_from_where_on_nothing_can_be_read() -> None:
    [found] = transactions("orders", {("inbox", 3): 17})
    assert found.health is JournalHealth.ERROR
    assert "orders.inbox, partition 3, from 17 on" in found.found
    assert "transaction.timeout.ms" in found.advice
    assert transactions("orders", {}) == []
