"""Somebody changes the view in Redis: no answer, no checkpoint and no trim makes it the truth. On real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from own_valkey import OwnValkey, own_valkey
from projector_runs import hurried
from seekpoint.consumers import Recovery, Tier, View
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.view.view_rows import check_of
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ViewUnavailable

pytestmark = pytest.mark.cluster

CASES = ("case-17", "case-18")


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.fixture
async def place(journal: Settings, server: OwnValkey) -> Settings:
    """Two processes that are in the view and in checkpoints; no projector runs."""
    server.client.flushall()
    place = hurried(journal, server)
    async with Node.connect(place) as node:
        for process_id in CASES:
            async with node.open(process_id) as process:
                await process.update("amount", 100)
    await Projector.connect(place).catch_up(timeout_s=60)
    return place


def change(server: OwnValkey, *, fits: bool) -> None:
    """HSET of one value; with ``fits`` the row has its hash again."""
    (context,) = server.client.keys("*:c:case-17")
    base = context.removesuffix(b"c:case-17")
    server.client.hset(context, "amount", "1000000")
    if fits:
        head, mail = (server.client.hget(base + name, "case-17") for name in (b"heads", b"mails"))
        fields = [part for pair in server.client.hgetall(context).items() for part in pair]
        server.client.hset(base + b"checks", "case-17", check_of(b"case-17", head, mail, fields, []))


async def test_a_forged_value_is_never_returned_and_is_recomputed(place: Settings, server: OwnValkey) -> None:
    """Recovery uses the next tier and says why. The projector corrects the state at the next entry."""
    change(server, fits=False)
    async with Recovery.connect(place) as recovery, View.connect(place) as view:
        found = await recovery.recover("case-17")
        assert (found.report.tier, found.state.context) == (Tier.CHECKPOINT, {"amount": 100})
        assert any("view" in note and "hash" in note for note in found.report.notes)
        with pytest.raises(ViewUnavailable, match="hash"):
            await view.get("case-17")
        async with Node.connect(place) as node, node.open("case-17") as process:
            await process.update("more", 1)
        projector = Projector.connect(place)
        async with projector._running():
            await projector.catch_up(timeout_s=60)
            assert sum(lag.damages for lag in projector.lag().values()) == 1
        seen = await view.get("case-17")
        assert seen is not None
        assert seen.state.context == {"amount": 100, "more": 1}


async def test_a_changed_value_with_a_hash_that_fits_never_reaches_a_checkpoint(
    place: Settings, server: OwnValkey
) -> None:
    """Otherwise the projector would save it, and after a trim no other state would exist."""
    change(server, fits=True)
    async with Node.connect(place) as node, node.open("case-17") as process:
        await process.update("more", 1)
    await Projector.connect(place).catch_up(timeout_s=60)
    reader = KafkaReader(place)
    trimmed = [Trim(reader, reader.checkpoints(), reader).run(partition) for partition in range(reader.partitions)]
    reader.close()
    assert sum(one.recomputed for one in trimmed) == len(CASES)
    async with Recovery.connect(place) as recovery:
        for tier in (Tier.VIEW, Tier.CHECKPOINT):
            found = await recovery.recover("case-17", tier=tier)
            assert found.state.context["amount"] == 100
        assert (await recovery.verify("case-17")).agrees
