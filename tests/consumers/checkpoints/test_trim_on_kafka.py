"""Trim a real journal: the entries are deleted and no state is lost."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_checkpoints import save
from raw_kafka import RawKafka
from seekpoint.consumers import Recovery, Tier
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import JournalGap, JournalMismatch

pytestmark = pytest.mark.cluster

CASES = [f"case-{number}" for number in range(6)]


async def work(journal: Settings) -> dict[str, str]:
    """Run some processes and return the hashes of their states."""
    async with Node.connect(journal) as node:
        for process_id in CASES:
            async with node.open(process_id) as process:
                for number in range(4):
                    await process.update("n", number)
    async with Recovery.connect(journal) as recovery:
        return {process_id: (await recovery.recover(process_id)).state.hash for process_id in CASES}


async def test_after_a_trim_checkpoints_are_the_truth(journal: Settings) -> None:
    """A recovery by checkpoint gives the former state, a scan raises a gap, and the work goes on."""
    before = await work(journal)
    save(journal)
    reader = KafkaReader(journal)
    done = [Trim(reader, reader.checkpoints(), reader).run(partition) for partition in range(reader.partitions)]
    assert sum(one.checkpoints for one in done) == len(CASES)
    assert [reader.watermarks(one.partition).low for one in done] == [one.floor for one in done]
    reader.close()
    async with Recovery.connect(journal) as recovery:
        for process_id in CASES:
            found = await recovery.recover(process_id)
            assert (found.report.tier, found.state.hash) == (Tier.CHECKPOINT, before[process_id])
            with pytest.raises(JournalGap):
                await recovery.recover(process_id, tier=Tier.SCAN)
    async with Node.connect(journal) as node, node.open(CASES[0]) as process:
        await process.update("n", 99)
        assert process.state.context == {"n": 99}
        assert process.state.epoch == 2


async def test_a_topic_that_is_not_the_journals_is_not_trimmed(journal: Settings) -> None:
    """The topic was re-created after the reader connected: nothing is deleted."""
    await work(journal)
    reader = KafkaReader(journal)
    reader.connect()
    raw = RawKafka(journal)
    raw.recreate()
    raw.append(0, b"case-1", b"another life")
    with pytest.raises(JournalMismatch):
        reader.delete_below(0, 1)
    reader.close()
    assert low_of(journal) == 0


def low_of(journal: Settings) -> int:
    """Return the first offset of partition 0."""
    consumer = Consumer({"bootstrap.servers": journal.bootstrap_servers, "group.id": "x"})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(journal.topic_name("journal"), 0), timeout=60)
        return int(low)
    finally:
        consumer.close()
