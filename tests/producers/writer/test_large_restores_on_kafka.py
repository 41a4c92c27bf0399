"""States near their limit are rewound to, forked, seeded, captured and imported on a real Kafka and a real Valkey."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from raw_kafka import RawKafka
from seekpoint.compose import create_topics
from seekpoint.consumers import Projector, Recovery, Tier
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.staging import Plan, Replay, Selection
from seekpoint.producers import Node
from seekpoint.producers.importing import import_process
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.cluster_profiles import Cluster
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import LimitExceeded
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.codec import encode

pytestmark = pytest.mark.cluster

VALUES, VALUE_CHARS = 8, 1_040_000


async def fill(node: Node, process_id: str) -> None:
    """A process whose content takes almost all that a state may."""
    async with node.open(process_id) as process:
        for number in range(VALUES):
            await process.update(f"v{number}", "x" * VALUE_CHARS)
        room = process.limits.state_bytes - process.state.content_bytes
        await process.update("rest", "x" * (room - 100))


async def test_a_full_state_is_rewound_to_and_forked_and_read_by_every_way(journal: Settings) -> None:
    """Its entry is the largest one; small entries of others leave in the same batch, and none is refused."""
    async with Node.connect(journal) as node:
        await fill(node, "parent")
        async with node.open("parent") as process, node.open("other") as other:
            full = process.state.content_hash
            await process.clear()
            assert process.state.content_hash != full
            done = asyncio.gather(*(other.update("n", number) for number in range(200)))
            rewound = await process.rewind(VALUES + 1)
            await done
            await process.confirm()
            assert process.state.content_hash == full
        async with node.fork("parent", "child") as child:
            assert child.state.content_hash == full
            await child.update("rest", "small")
        expected = {one: (await node.recover(one, tier=Tier.SCAN)).state for one in ("parent", "other", "child")}
        assert expected["child"].context["rest"] == "small"
        assert (await node.recover("parent", at_seq=rewound.seq)).state.content_hash == full
        kinds = [one.entry.kind async for one in node.entries("child")]
        assert kinds == ["claim", "forked", "context_updated", "released"]
        async with Projector.connect(journal) as projector:
            await projector.catch_up(timeout_s=60.0)
        for tier in (Tier.VIEW, Tier.CHECKPOINT):
            for process_id, wanted in expected.items():
                found = await node.recover(process_id, tier=tier)
                assert (found.state.hash, found.report.tier) == (wanted.hash, tier)
        with pytest.raises(LimitExceeded):
            async with node.open("other") as other:
                await other.update("n", "x" * 1_048_576)


async def test_a_full_state_is_seeded_captured_and_imported(journal: Settings, tmp_path: Path) -> None:
    """A slice that starts behind its content, a copy of the whole by way of a file, and one process under a new id."""
    async with Node.connect(journal) as node:
        await fill(node, "parent")
        async with node.fork("parent", "child"):
            pass
        reader = KafkaReader(journal)
        starts = {partition: reader.watermarks(partition).high for partition in range(reader.partitions)}
        reader.close()
        async with node.open("parent") as process:
            await process.update("rest", "small")
        whole = {one: (await node.recover(one)).state for one in ("parent", "child")}
        entries = [one async for one in node.entries("child")]
        imported = await import_process(node, entries, "copy")
        assert imported.entries == len(entries)
        assert (await node.recover("copy")).state.content_hash == whole["child"].content_hash
    seeded, copied = (replace(journal, journal=f"{journal.journal}-{name}") for name in ("seeded", "copied"))
    for target in (seeded, copied):
        await create_topics(target)
    slice_ = Plan(selection=Selection(offsets={part: (at, None) for part, at in starts.items()}), seeded=True)
    file, source = str(tmp_path / "run.spk"), f"prod/{journal.topic_name('journal')}"
    for origin, end, plan in (
        (source, f"staging/{seeded.topic_name('journal')}", slice_),
        (source, file, Plan()),
        (file, f"staging/{copied.topic_name('journal')}", Plan()),
    ):
        clusters = {
            "prod": Cluster(name="prod", settings=journal),
            "staging": Cluster(name="staging", settings=seeded if plan is slice_ else copied, is_staging=True),
        }
        with Replay.connect(origin, end, plan, clusters=clusters) as made:
            assert (await asyncio.to_thread(made.run)).checked
    async with Recovery.connect(seeded) as there:
        assert (await there.recover("parent")).state.hash == whole["parent"].hash
    async with Recovery.connect(copied) as there:
        for process_id, wanted in whole.items():
            assert (await there.recover(process_id)).state.hash == wanted.hash


async def test_poison_of_the_largest_size_becomes_a_letter_with_all_its_bytes(journal: Settings) -> None:
    """No entry, and an entry of a kind that may not be that large: both are kept whole, and the log goes on."""
    async with Node.connect(journal) as node, node.open("p") as process:
        await process.update("a", 1)
        limits = process.limits
        await process.confirm()
        entry = [one.entry async for one in node.entries("p")][-1]
        assert entry.seq is not None
        large = encode(entry._replace(seq=entry.seq + 1, body=b.MessageSaid("user", "x" * 2_000_000)))
        raw, poison = RawKafka(journal), [b"\xff" * limits.restoring_bytes, large]
        for value in poison:
            raw.append(partition_of(b"p", journal.partitions), b"p", value)
        async with Recovery.connect(journal) as recovery:
            found = await recovery.recover("p", tier=Tier.SCAN)
            assert (found.state.context, found.state.degraded, found.report.poison) == ({"a": 1}, None, 2)
            letters = recovery.blocking.dead_letters
            assert letters is not None
            assert [one.value for one in letters.list()] == poison
        await process.update("a", 2)
        await process.confirm()
