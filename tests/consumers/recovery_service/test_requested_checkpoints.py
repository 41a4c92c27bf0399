"""A process is checkpointed once its recovery was requested, though its cadence would wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from owners import Owner
from seekpoint.compose import create_topics
from seekpoint.consumers import Projector, Tier, View
from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery_service.exchange import MemoryExchange
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.consumers.recovery_service.requested_checkpoints import RequestedCheckpoints
from seekpoint.consumers.recovery_service.stored_states import StoredStates
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.producers import Node
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import CheckpointTimeout, JournalUnavailable
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.recovery_requests import RecoveryRequest, encode_request

ID = bytes(range(16))


def ask(exchange: MemoryExchange, process_id: str, **fields: int) -> None:
    request = RecoveryRequest(id=ID, process_id=process_id, deadline=1, ts=1, **fields)  # type: ignore[arg-type]  # only points
    exchange.send("recover", 0, process_id.encode(), encode_request(request))


@pytest.fixture
def followed() -> Iterator[tuple[RequestedCheckpoints, MemoryExchange]]:
    """Return requests on a log of one partition with two entries."""
    log, exchange = MemoryLog(partitions=1), MemoryExchange(1)
    owner = Owner(log.append, 1, "case-17")
    owner.claim()
    owner.update("a", "1")
    made = RequestedCheckpoints(exchange, log)
    yield made, exchange
    made.close()


def test_a_requested_process_is_taken_with_the_journals_end(
    followed: tuple[RequestedCheckpoints, MemoryExchange],
) -> None:
    """Each request is taken once; one about the past, or an undecodable one, is not taken."""
    requests, exchange = followed
    requests.follow([0])
    requests.poll()
    assert requests.take(0) == {}
    ask(exchange, "case-17")
    ask(exchange, "case-18", at_seq=1)
    exchange.send("recover", 0, b"case-19", b"junk")
    requests.poll()
    assert requests.take(0) == {b"case-17": 2}
    assert requests.take(0) == {}
    requests.poll()
    assert requests.take(0) == {}


def test_a_request_sent_while_the_partition_changed_hands_is_taken(
    followed: tuple[RequestedCheckpoints, MemoryExchange],
) -> None:
    """The first poll reads some earlier requests; a partition of another projector is not read."""
    requests, exchange = followed
    ask(exchange, "case-17")
    requests.follow([0])
    requests.poll()
    assert requests.take(0) == {b"case-17": 2}
    requests.follow([])
    ask(exchange, "case-18")
    requests.poll()
    assert requests.take(0) == {}


def test_a_topic_that_cannot_be_read_is_only_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A projector without permission to read requests logs a warning and follows the cadence."""

    class Refused(MemoryExchange):
        def end(self, *_: object) -> int:
            raise JournalUnavailable("authorization failed")

    made = RequestedCheckpoints(Refused(1), MemoryLog(partitions=1))
    made.follow([0])
    made.start()
    deadline = time.monotonic() + 60
    while not caplog.messages and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "authorization failed" in caplog.text
    assert made.take(0) == {}
    made.close()


async def test_what_no_projector_saves_is_no_checkpoint() -> None:
    """The wait for a checkpoint raises an error, and a view without the state is no place for it."""
    log = MemoryLog(partitions=1)
    owner = Owner(log.append, 1, "case-17")
    owner.claim()
    recovery = Recovery.in_memory(log)
    found = await recovery.recover("case-17")
    view = View(MemoryView(1))
    kept = StoredStates(recovery, Settings(), view=view, checkpoint_timeout_s=0.1, view_timeout_s=0.1)
    with pytest.raises(CheckpointTimeout):
        await kept.wait_for_checkpoint("case-17", found.state.offset)
    assert await kept.wait_for_view("case-17", found) is None
    assert await StoredStates(recovery, Settings(redis_url=None)).wait_for_view("case-17", found) is None
    await kept.close()
    recovery.close()


@pytest.mark.cluster
async def test_a_process_that_is_recovered_on_demand_is_checkpointed(settings: Settings) -> None:
    """Only the request causes the checkpoint: another node owns the process, and it is far below its cadence. Nothing
    is written to the journal. The next recovery reads no entry.
    """
    await create_topics(settings)
    projector = Projector.connect(settings, cadence=Cadence(bytes_min=1_000_000, age_max_s=3600.0))
    running = asyncio.create_task(projector.run())
    async with Node.connect(settings) as owner, RecoveryService(settings) as service, Node.connect(settings) as asker:
        answering = asyncio.create_task(service.run())
        async with owner.open("case-1") as process:
            await process.update("a", 1)
            found = await asker.request_recovery("case-1")
            async with asyncio.timeout(60):
                while service.figures.checkpoints == 0:  # noqa: ASYNC110  # it has no event
                    await asyncio.sleep(0.05)
            saved = await asker.recover("case-1", tier=Tier.CHECKPOINT)
            assert (saved.state.hash, saved.report.entries_scanned) == (found.hash, 0)
            assert (await owner.recover("case-1")).state.mailbox == {}
            assert not running.done(), running
        answering.cancel()
    projector.stop()
    await running


@pytest.mark.cluster
async def test_a_state_too_large_for_an_answer_is_ready_in_the_view(settings: Settings) -> None:
    """The answer has the hash and the place, and the view has the state with that hash. A past state has no place."""
    await create_topics(settings, limits=Limits(record_bytes=20_000))
    projector = Projector.connect(settings)
    running = asyncio.create_task(projector.run())
    async with Node.connect(settings) as node, RecoveryService(settings) as service:
        answering = asyncio.create_task(service.run())
        async with node.open("case-1") as process:
            for number in range(4):
                await process.update(f"text {number}", "x" * 9_000)
        found = await node.request_recovery("case-1")
        assert (found.state, found.place) == (None, "view:case-1")
        async with View.connect(settings) as view:
            viewed = await view.get("case-1")
        assert viewed is not None
        assert viewed.state.hash == found.hash
        past = await node.request_recovery("case-1", at_seq=4)
        assert (past.state, past.place) == (None, None)
        answering.cancel()
    projector.stop()
    await running
