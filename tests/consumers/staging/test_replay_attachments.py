"""Attachments of production runs, replayed into staging: in Kafka, in the journal and in a blob store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from seekpoint.compose import create_topics
from seekpoint.consumers.staging import Plan, Replay, Selection
from seekpoint.consumers.staging.replay_report import ReplayReport
from seekpoint.producers import Node
from seekpoint.schemas import Settings, partition_of
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.errors import ReplayRefused

pytestmark = pytest.mark.cluster

IN_JOURNAL, IN_STORE = Random(1).randbytes(2_000_000), Random(2).randbytes(1_500_000)


async def test_a_copy_in_staging_reads_all_attachments(journal: Settings, tmp_path: Path) -> None:
    """Under the same id and under another one. What staging deletes, production keeps."""
    with_store = replace(journal, blob_store=f"file://{tmp_path / 'blobs'}")
    async with Node.connect(journal) as node, node.open("case-17") as process:
        in_journal = await process.attach(IN_JOURNAL)
    async with Node.connect(with_store) as node, node.open("case-17") as process:
        in_store = await process.attach(IN_STORE)
        await process.update("scans", [in_journal, in_store])
    into = replace(with_store, journal=f"{journal.journal}-staging", partitions=3)
    await create_topics(into)
    for prefix in ("", "copy-"):
        await asyncio.to_thread(replayed, journal, into, Plan(prefix=prefix))
        async with Node.connect(into) as node:
            name = f"{prefix}case-17"
            refs = (await node.recover(name)).state.context["scans"]
            assert [await node.read_attachment(ref, process_id=name) for ref in refs] == [IN_JOURNAL, IN_STORE]
            await node.delete(name)
    async with Node.connect(with_store) as node:
        assert [await node.read_attachment(ref) for ref in (in_journal, in_store)] == [IN_JOURNAL, IN_STORE]


async def test_a_slice_with_its_states_does_not_lose_bytes(journal: Settings, tmp_path: Path) -> None:
    """A process with attachments in the journal is refused; one with attachments in a blob store has them."""
    with_store = replace(journal, blob_store=f"file://{tmp_path / 'blobs'}")
    async with Node.connect(with_store) as node:
        async with node.open("stored") as process:
            ref = await process.attach(IN_STORE)
            await process.record("before")
            before = (await node.recover("stored")).state
            await process.record("behind")
        async with node.open("journaled") as process:
            await process.attach(b"small")
            await process.record("behind")
        newest = (await node.recover("journaled")).state
    partitions = {name: partition_of(name.encode(), journal.partitions) for name in ("stored", "journaled")}
    into = replace(with_store, journal=f"{journal.journal}-staging", partitions=1)
    await create_topics(into)
    lost = Selection(processes=frozenset({"journaled"}), offsets={partitions["journaled"]: (newest.offset, None)})
    with pytest.raises(ReplayRefused, match=r"attachments before the range \(1\).*without --seeded"):
        await asyncio.to_thread(replayed, journal, into, Plan(selection=lost, seeded=True))
    kept = Selection(processes=frozenset({"stored"}), offsets={partitions["stored"]: (before.offset + 1, None)})
    report = await asyncio.to_thread(replayed, journal, into, Plan(selection=kept, seeded=True))
    assert report.seeded == 1
    async with Node.connect(into) as node:
        assert await node.read_attachment(ref) == IN_STORE


def replayed(journal: Settings, into: Settings, plan: Plan) -> ReplayReport:
    """The report of a replay into staging."""
    clusters = {
        "prod": Cluster(name="prod", settings=journal),
        "staging": Cluster(name="staging", settings=into, is_staging=True),
    }
    ends = f"prod/{journal.topic_name('journal')}", f"staging/{into.topic_name('journal')}"
    with Replay.connect(*ends, plan, clusters=clusters) as made:
        return made.run()
