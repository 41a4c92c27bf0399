"""The facts of the pipeline, on a file and on a real Kafka with a projector, a worker and a recovery service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from consoles import file_settings
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.facts.node_facts import DISPATCHER_PREFIX
from seekpoint.console.services.facts.partition_lag import LagReader
from seekpoint.console.services.facts.pipeline_facts import PipelineFacts, PipelineReader
from seekpoint.consumers.projector.projector import Projector
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.producers import Node, Process, Worker, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.values.clock import now_us


class Target(CommandTarget):
    """The journal of some settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(None, None, None)
        self.__dict__["settings"] = settings


@agent("clerk", "1")
async def clerk(process: Process, order: str) -> str:
    """Do nothing."""
    return order


async def _update(settings: Settings, *process_ids: str) -> None:
    async with Node.connect(settings) as node:
        for process_id in process_ids:
            async with node.open(process_id) as process:
                await process.update("x", 1)


@asynccontextmanager
async def _running(run: Callable[[], Awaitable[object]], stop: Callable[[], object]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        stop()
        await task


async def _until(
    reader: PipelineReader, check: Callable[[PipelineFacts], object], timeout_s: float = 60.0
) -> PipelineFacts:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not check(found := await asyncio.to_thread(reader.read)):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.1)
    return found


def _is_saved(found: PipelineFacts) -> bool:
    """Whether all entries are in checkpoints. An empty partition has no floor."""
    return all(one.unsaved == 0 for one in found.partitions if one.log_end)


async def test_a_file_shows_what_there_is(tmp_path: Path) -> None:
    """Without a projector nothing is applied; with one, it has the partitions, and neither view nor floor is behind."""
    settings = file_settings(tmp_path, checkpoint_age_max_s=0.2)
    await _update(settings, "a", "b", "c")
    with closing(Target(settings)) as target:
        reader = PipelineReader(target)
        found = reader.read()
        assert (found.is_embedded, found.no_view, found.behind, found.members) == (True, None, None, ())
        assert {(one.projector, one.floor) for one in found.partitions} == {(None, None)}
        assert sum(one.log_end for one in found.partitions) >= 6
        assert all(one.problem for one in found.partitions)
        projector = Projector(settings)
        async with _running(projector.run, projector.stop):
            found = await _until(
                reader, lambda now: now.behind == 0 and all(one.projector for one in now.partitions) and _is_saved(now)
            )  # fmt: skip
        [member] = found.of_role("projector")
        assert member.partitions == tuple(one.partition for one in found.partitions)
        assert {one.projector_host for one in found.partitions} == {member.host}
        assert ", pid " in member.host
        assert {(one.behind_s, one.unsaved_s) for one in found.partitions if one.log_end} == {(0.0, 0.0)}


async def test_lag_in_seconds_is_the_age_of_the_oldest_entry(tmp_path: Path) -> None:
    """Of the oldest one that the view lacks, and of the oldest one above the floor; whatever came after."""
    settings = file_settings(tmp_path, checkpoint_age_max_s=0.2)
    projector = Projector(settings)
    await _update(settings, "a")
    with closing(Target(settings)) as target:
        async with _running(projector.run, projector.stop):
            await _until(PipelineReader(target), _is_saved)
        before = now_us() / 1e6
        await _update(settings, "a")
        between = now_us() / 1e6
        lags = LagReader(target, now_s=lambda: between + 100)
        [first] = [one for one in lags.read() if one.behind]
        assert first.behind_s is not None
        assert first.unsaved_s == first.behind_s
        assert 99.9 <= first.behind_s <= 100.1 + between - before
        await _update(settings, "a")
        [second] = [one for one in lags.read() if one.behind]
        assert second.behind_s == first.behind_s
        assert (second.behind or 0) > (first.behind or 0)


@pytest.mark.cluster
async def test_kafka_shows_who_has_which_partition(journal: Settings) -> None:
    """The projector, the worker, the recovery service; a dispatcher and a node by their heartbeats."""
    settings = replace(journal, checkpoint_age_max_s=0.2, heartbeat_interval_s=0.2, owner_timeout_s=30.0)
    await _update(settings, "a", "b", "c")
    with closing(Target(settings)) as target:
        reader = PipelineReader(target)
        everything = tuple(range(settings.partitions))
        projector = Projector(settings)
        async with (
            _running(projector.run, projector.stop),
            Worker([clerk], replace(settings, node_id="w-1")),
            RecoveryService(settings) as service,
            Node.connect(replace(settings, node_id=f"{DISPATCHER_PREFIX}1")),
            Node.connect(replace(settings, node_id="own")) as node,
            node.open("held"),
        ):
            stop = asyncio.Event()
            async with _running(lambda: service.run(stop), stop.set):
                found = await _until(
                    reader, lambda now: now.behind == 0 and {one.role for one in now.members if one.partitions}
                    == {"projector", "worker", "recovery"} and all(one.state == "alive" for one in now.nodes)
                    and len(now.nodes) == 2 and [one.partitions for one in now.workers] == [everything]
                )  # fmt: skip
        [projecting], [working] = found.of_role("projector"), found.of_role("worker")
        assert projecting.partitions == working.partitions == everything
        assert (projecting.group, found.no_members) == (f"{settings.journal}.projector", None)
        assert {one.projector for one in found.partitions} == {projecting.member}
        assert [(one.node_id, one.state, one.agents) for one in found.workers] == [("w-1", "working", ("clerk",))]
        assert {one.node_id: (one.is_dispatcher, one.claims) for one in found.nodes} == {
            f"{DISPATCHER_PREFIX}1": (True, 0), "own": (False, 1),
        }  # fmt: skip
        assert [one.node_id for one in found.dispatchers] == [f"{DISPATCHER_PREFIX}1"]
        gone = await _until(reader, lambda now: not now.members and not now.workers and not now.nodes)
        assert {one.projector for one in gone.partitions} == {None}


@pytest.mark.cluster
async def test_without_redis_it_says_so(journal: Settings) -> None:
    """No view, no lag of it; the log, the floor and the members are there."""
    settings = replace(journal, redis_url=None)
    await _update(settings, "a")
    with closing(Target(settings)) as target:
        found = await asyncio.to_thread(PipelineReader(target).read)
    assert (found.no_view, found.behind) == ("the settings name no Redis", None)
    assert {one.problem for one in found.partitions} == {"the settings name no Redis"}
    assert {one.behind_s for one in found.partitions} == {None}
    assert sum(one.log_end for one in found.partitions) > 0
