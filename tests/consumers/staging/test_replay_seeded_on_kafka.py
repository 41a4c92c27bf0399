"""A range of a journal on Kafka, seeded by recovery, also where the journal was trimmed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kafka_checkpoints import save
from raw_kafka import RawKafka
from seekpoint.compose import create_topics
from seekpoint.consumers import Recovery
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.staging import Plan, Replay, Selection
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import JournalGap

pytestmark = pytest.mark.cluster

CASES = [f"case-{number}" for number in range(6)]


async def work(journal: Settings, entries: int) -> None:
    async with Node.connect(journal) as node:
        for process_id in CASES:
            async with node.open(process_id) as process:
                for number in range(entries):
                    await process.say("user", f"message {number}")


async def test_a_range_is_seeded_from_checkpoints(journal: Settings) -> None:
    """After a trim the range folds to the states of the source, and no dead letter is written."""
    await work(journal, 3)
    save(journal)
    reader = KafkaReader(journal)
    starts = {partition: reader.watermarks(partition).high for partition in range(reader.partitions)}
    for partition in range(reader.partitions):
        Trim(reader, reader.checkpoints(), reader).run(partition)
    assert any(reader.watermarks(partition).low for partition in starts)
    await work(journal, 2)
    into = replace(journal, journal=f"{journal.journal}-into", partitions=3)
    await create_topics(into)
    clusters = {
        "prod": Cluster(name="prod", settings=journal),
        "staging": Cluster(name="staging", settings=into, is_staging=True),
    }
    ends = f"prod/{journal.topic_name('journal')}", f"staging/{into.topic_name('journal')}"
    slice_ = Selection(offsets={partition: (start, None) for partition, start in starts.items()})
    with Replay.connect(*ends, Plan(selection=slice_, seeded=True), clusters=clusters) as made:
        report = await asyncio.to_thread(made.run)
    assert (report.seeded, report.checked, report.not_foldable) == (len(CASES), True, ())
    async with Recovery.connect(journal) as before, Recovery.connect(into) as after:
        for process_id in CASES:
            expected, found = await before.recover(process_id), await after.recover(process_id)
            assert found.state.hash == expected.state.hash
            assert len(found.state.conversation) == 5
    assert not reader.table("deadletters").items()
    reader.close()


async def test_a_seed_older_than_every_checkpoint_is_refused(journal: Settings) -> None:
    """The error is a ``JournalGap``; no later state is used."""
    await work(journal, 3)
    save(journal)
    reader, raw = KafkaReader(journal), RawKafka(journal)
    for partition in range(reader.partitions):
        if reader.watermarks(partition).high > 3:
            raw.trim(partition, 3)
    reader.close()
    into = replace(journal, journal=f"{journal.journal}-into")
    await create_topics(into)
    clusters = {
        "prod": Cluster(name="prod", settings=journal),
        "staging": Cluster(name="staging", settings=into, is_staging=True),
    }
    ends = f"prod/{journal.topic_name('journal')}", f"staging/{into.topic_name('journal')}"
    with Replay.connect(*ends, Plan(seeded=True), clusters=clusters) as made, pytest.raises(JournalGap):
        await asyncio.to_thread(made.run)
