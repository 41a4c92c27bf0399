"""A node that projects beside its processes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from own_valkey import OwnValkey, own_valkey
from seekpoint.consumers import Tier, View
from seekpoint.producers import Node
from seekpoint.producers.embedded_projector import EmbeddedProjector
from seekpoint.producers.process import durable_side
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, JournalUnavailable, NewerFormat, ViewRefused


class Scripted:
    """A projector that ends as it is told, run by run; the last run goes on until it is stopped."""

    def __init__(self, *endings: Exception) -> None:
        self.endings = list(endings)
        self.runs = 0
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        if self.endings:
            raise self.endings.pop(0)
        await self.stopped.wait()

    def stop(self) -> None:
        self.stopped.set()


async def reach(projector: Scripted, runs: int) -> None:
    async with asyncio.timeout(60):
        while projector.runs < runs:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)


async def test_what_may_go_by_itself_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Loudly each time; once it runs again there is no failure."""
    projector = Scripted(JournalUnavailable("Kafka is away"), JournalUnavailable("Kafka is away"))
    embedded = EmbeddedProjector(projector, Settings(), retry_s=0.01)
    embedded.start()
    await reach(projector, 3)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    async with asyncio.timeout(60):
        while embedded.failure is not None:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)
    await embedded.close()
    assert projector.stopped.is_set()
    await embedded.close()


@pytest.mark.parametrize("failure", [NewerFormat("a newer one"), ZeroDivisionError("a mistake")], ids=repr)
async def test_what_a_person_has_to_look_at_leaves_it_stopped(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """One line that says so, an unforeseen one with its traceback; closing it is no error."""
    projector = Scripted(failure)
    embedded = EmbeddedProjector(projector, Settings(), retry_s=0.001)
    embedded.start()
    async with asyncio.timeout(60):
        while not caplog.records:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert (projector.runs, embedded.failure) == (1, failure)
    assert "it stays stopped" in caplog.text
    await embedded.close()


def test_a_node_without_a_redis_cannot_project() -> None:
    """It is told when it is made, not in the log later."""
    with pytest.raises(InvalidSetting, match="needs a Redis"):
        Node.connect(Settings(redis_url=None), projector=True)


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.mark.cluster
async def test_a_node_projects_beside_its_processes(journal: Settings, server: OwnValkey) -> None:
    """View and checkpoints follow; leaving saves what is left and leaves no thread; the next node goes on."""
    settings = replace(journal, redis_url=server.url, checkpoint_age_max_s=3600.0)
    async with Node.connect(settings, projector=True) as node:
        async with node.open("case-1") as process:
            await process.update("a", 1)
            asked = await process.checkpoint()
            await process.update("a", 2)
            last = process.state.offset
            async with View.connect(settings) as view, asyncio.timeout(60):
                async for viewed in view.watch("case-1"):
                    if viewed.state.offset >= last:
                        break
            assert (await node.recover("case-1", tier=Tier.VIEW)).state.context == {"a": 2}
            durable_side(process).abandon()
        assert node.projector_failure is None
    assert "seekpoint-projector" not in {thread.name for thread in threading.enumerate()}
    async with Node.connect(settings) as other:
        found = await other.recover("case-1", tier=Tier.CHECKPOINT)
    assert asked < last
    assert (found.state.offset, found.state.context, found.report.entries_scanned) == (last, {"a": 2}, 0)


@pytest.mark.cluster
async def test_the_content_of_a_finished_process_is_dropped_in_time(journal: Settings, server: OwnValkey) -> None:
    """In the view and the checkpoint; the log still has it: a past seq, a scan and a fork find it."""
    settings = replace(journal, redis_url=server.url, finished_content_s=0.5)
    async with Node.connect(settings, projector=True) as node:
        async with node.open("case-1") as process:
            await process.update("a", 1)
            await process.finish("done")
        async with asyncio.timeout(60):
            while not (await node.recover("case-1")).state.content_dropped:  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.05)
        tiers = {tier: (await node.recover("case-1", tier=tier)).state for tier in Tier}
        assert {tier: state.content_dropped for tier, state in tiers.items()} == {
            Tier.VIEW: True, Tier.CHECKPOINT: True, Tier.SCAN: False,
        }  # fmt: skip
        assert len({state.hash for state in tiers.values()}) == 1
        assert (await node.recover("case-1")).state.result == "done"
        assert (await node.recover("case-1", at_seq=2)).state.context == {"a": 1}
        async with node.fork("case-1", "case-2") as child:
            assert child.state.context == {"a": 1}


@pytest.mark.cluster
async def test_a_projector_that_fails_is_no_agents_business(
    journal: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A Redis that evicts is refused: an error in the log and on the node, while its processes work on."""
    with own_valkey(maxmemory="100mb", maxmemory_policy="allkeys-lru") as evicting:
        settings = replace(journal, redis_url=evicting.url)
        async with Node.connect(settings, projector=True) as node, node.open("case-1") as process:
            async with asyncio.timeout(60):
                while node.projector_failure is None:
                    await process.update("a", 1)
                    await asyncio.sleep(0.05)
            assert isinstance(node.projector_failure, ViewRefused)
            await process.update("a", 2)
            await process.confirm()
    assert any(record.levelno == logging.ERROR and "evict" in record.getMessage() for record in caplog.records)
