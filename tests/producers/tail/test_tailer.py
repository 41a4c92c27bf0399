"""The tailer and what rides on it: opens without a read, claims, confirmations, mail. On a log in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from folding import refold
from idle_tailers import at_rest, until
from seekpoint.consumers import Recovered, Recovery, Tier
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.producers import Node, Process
from seekpoint.producers.node import runtime_of
from seekpoint.producers.process import durable_side
from seekpoint.producers.tail import tail_follower
from seekpoint.producers.tail import tailer as tailer_module
from seekpoint.schemas import Entry, MemoryLog, Settings, bodies, encode, new_id
from seekpoint.schemas.errors import (
    Fenced,
    JournalGap,
    LogDamaged,
    LogTruncated,
    OwnerAlive,
    ProcessFinished,
    SeekpointError,
)
from seekpoint.schemas.log.log_ports import Batch
from seekpoint.schemas.log.memory_log import MemoryTail


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=1)


async def proven(node: Node) -> None:
    """Once the node can tell what does not exist."""
    async with node.open("first"):
        pass
    tail = runtime_of(node).tailer.tail(0)
    assert tail is not None
    await until(lambda: tail.absence.report(b"nobody", tail.position) is not None, "nothing is proven")


async def test_a_new_process_is_opened_without_a_read(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known absent, and the claim finds it so: no recovery, no watermarks, whatever the length of the log."""
    async with Node.in_memory(log) as node:
        await proven(node)
        monkeypatch.setattr(log, "watermarks", None)
        recover = runtime_of(node).recovery.recover
        monkeypatch.setattr(runtime_of(node).recovery, "recover", None)
        process = await node.open("new")
        monkeypatch.undo()
        assert runtime_of(node).recovery.recover == recover
        assert (process.report.tier, process.report.entries_scanned) == (Tier.SCAN, 0)
        await process.update("a", 1)
        await process.release()
    assert refold(log, "new").lost_claims == 0


async def test_who_begins_to_wait_ends_a_quiet_tick(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle node looks at its tails rarely. A silent tail is read directly all the same, a second after a call."""
    monkeypatch.setattr(tailer_module, "_QUIET_TICK_S", 3600.0)
    monkeypatch.setattr(MemoryTail, "_read_new", lambda tail: [])
    async with Node.in_memory(log) as node:
        tailer = runtime_of(node).tailer
        await until(lambda: tailer._is_quiet, "it looks at its tails all the time")
        tail = tailer.tail_from(0, 0)
        log.append(0, b"p", b"no entry")
        async with asyncio.timeout(30):
            await tailer.wait_for(tail, 1)


async def test_it_polls_while_a_caller_waits_for_any_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment on at which the caller begins to wait, until it ceases to."""
    monkeypatch.setattr(tailer_module, "_QUIET_TICK_S", 3600.0)
    async with Node.in_memory(MemoryLog(partitions=2)) as node:
        tailer = runtime_of(node).tailer
        tail, other = tailer.tail_from(0, 0), tailer.tail_from(1, 0)
        await at_rest(node)
        tailer.watch(tail, 1)
        tailer.watch(other, 1)
        await until(lambda: not tailer.is_idle, "nobody polls")
        tailer.watch(other, -1)
        ended_at = time.monotonic()
        while time.monotonic() - ended_at < 3 * tail_follower._LINGER_S:
            assert not tailer.is_idle
            await asyncio.sleep(0.02)
        tailer.watch(tail, -1)
        await at_rest(node)


async def test_what_came_since_the_proof_is_not_new(log: MemoryLog) -> None:
    """Every key that passes is noted: the heir goes on with what was written, and claims once."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as two:
        await proven(one)
        async with two.open("p") as process:
            await process.update("a", 1)
        tail = runtime_of(one).tailer.tail(0)
        assert tail is not None
        high = log.watermarks(0).high
        await runtime_of(one).tailer.wait_for(tail, high)
        async with one.open("p") as heir:
            assert heir.state.context == {"a": 1}
        assert refold(log, "p").lost_claims == 0


@asynccontextmanager
async def held_back(node: Node) -> AsyncIterator[None]:
    """The node's tailer reads, but what it reads does not reach the loop."""
    room = runtime_of(node).tailer._follower._room
    for _ in range(2):
        await asyncio.to_thread(room.acquire)
    try:
        yield
    finally:
        for _ in range(2):
            room.release()


async def opened_late(log: MemoryLog, node: Node, name: str, earlier: Callable[[], Awaitable[None]]) -> Process:
    """``name`` on a node that has not read yet what ``earlier`` does."""
    await proven(node)
    async with held_back(node):
        await earlier()
        high = log.watermarks(0).high
        opening = asyncio.create_task(_open(node, name))
        await until(lambda: log.watermarks(0).high > high or opening.done(), "nothing was claimed")
    return await opening


async def _open(node: Node, name: str) -> Process:
    return await node.open(name)


async def test_a_presumption_that_is_wrong_costs_a_claim_and_nothing_else(log: MemoryLog) -> None:
    """The tail stands where the process did not exist yet: the claim is lost, and the open goes the ordinary way."""
    async with Node.in_memory(log) as one, Node.in_memory(log) as two:

        async def finished() -> None:
            async with two.open("done") as process:
                await process.finish("well")

        async def held() -> None:
            await two.open("held")

        async def left() -> None:
            async with two.open("left") as process:
                await process.update("a", 1)

        with pytest.raises(ProcessFinished):
            await opened_late(log, one, "done", finished)
        with pytest.raises(OwnerAlive):
            await opened_late(log, one, "held", held)
        heir = await opened_late(log, one, "left", left)
        assert (heir.state.context, heir.state.lost_claims) == ({"a": 1}, 1)
        await heir.release()


async def test_a_process_below_the_floor_is_not_new(log: MemoryLog) -> None:
    """The proof reads from the floor on; what has a checkpoint exists, though nothing of it is read."""
    async with Node.in_memory(log) as node, node.open("old") as process:
        await process.update("a", 1)
    kept, high = MemoryCheckpoints(1), log.watermarks(0).high
    saved = Checkpoint.of("old", 0, refold(log, "old"), log.topic_id, -1)
    floor = Floor(offset=high, leader_epoch=-1, topic_id=log.topic_id, since=0)
    kept.write(0, [(b"old", saved.to_bytes()), (FLOOR_KEY, floor.to_bytes())])
    recovery = Recovery.in_memory(log, checkpoints=kept)
    async with Node(log, log, Settings(redis_url=None), recovery=recovery) as node:
        await proven(node)
        tail = runtime_of(node).tailer.tail(0)
        assert tail is not None
        report = tail.absence.report(b"new", tail.position)
        assert report is not None
        assert (report.tier, report.seek_point) == (Tier.CHECKPOINT, high)
        assert tail.absence.report(b"old", tail.position) is None
        async with node.open("old") as heir:
            assert heir.state.context == {"a": 1}
            assert heir.state.lost_claims == 0


async def test_what_was_there_before_the_node_is_not_new(log: MemoryLog) -> None:
    """Where there is no floor the proof has read the whole log: the heir claims once."""
    async with Node.in_memory(log) as node, node.open("old") as process:
        await process.update("a", 1)
    async with Node.in_memory(log) as node:
        await proven(node)
        async with node.open("old") as heir:
            assert (heir.state.context, heir.state.lost_claims) == ({"a": 1}, 0)


async def test_a_claim_right_behind_ours_is_not_missed(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are read in one go: the handle that is made of the first is fenced by the second, before it writes."""
    claim = bodies.Claim(expected_epoch=1, node_id="rival", boot_id="rival")
    rival = encode(Entry(new_id(), "p", None, 0, None, None, 0, None, None, None, claim))
    append = log.append

    def followed(partition: int, key: bytes | None, value: bytes | None) -> int:
        offset = append(partition, key, value)
        if key == b"p":
            append(partition, key, rival)
        return offset

    async with Node.in_memory(log) as node:
        await proven(node)
        monkeypatch.setattr(log, "append", followed)
        monkeypatch.setattr(runtime_of(node).outbox, "_on_readable", None)
        process = await node.open("p")
        monkeypatch.undo()
        with pytest.raises(Fenced):
            await process.update("a", 1)
        durable_side(process).abandon()


async def test_many_new_processes_at_once_have_one_owner_each(log: MemoryLog) -> None:
    """Two nodes open the same hundred: each is written by one, and nothing is lost."""
    async with Node.in_memory(log, node_id="one") as one, Node.in_memory(log, node_id="two") as two:
        await proven(one)
        await proven(two)

        async def work(node: Node, name: str) -> bool:
            try:
                async with node.open(name) as process:
                    await process.update("who", node.node_id)
                    await process.finish(node.node_id)
            except SeekpointError:
                return False
            return True

        names = [f"run-{index}" for index in range(100)]
        outcomes = await asyncio.gather(*(work(node, name) for name in names for node in (one, two)))
        assert [outcomes[index] + outcomes[index + 1] for index in range(0, 200, 2)] == [1] * 100
    for name in names:
        state = refold(log, name)
        assert state.finished
        assert state.seq == 2


async def test_an_idle_handle_in_a_busy_partition_is_confirmed_without_reading_it_again(log: MemoryLog) -> None:
    """The tail has passed what others wrote: the next confirmation reads what came since, nothing twice."""
    async with Node.in_memory(log) as node, node.open("idle") as idle, node.open("busy") as busy:
        for number in range(2_000):
            await busy.update("n", number)
        await busy.confirm()
        reads: list[int] = []
        read = log.read

        def counted(partition: int, start: int, stop: int, *more: object) -> object:
            reads.append(stop - start)
            return read(partition, start, stop, *more)  # type: ignore[arg-type]

        log.read = counted  # type: ignore[method-assign,assignment]
        await idle.update("a", 1)
        await idle.confirm()
        assert sum(reads) <= 2
        log.read = read  # type: ignore[method-assign]


async def test_mail_comes_as_soon_as_it_is_in_the_log(log: MemoryLog) -> None:
    """Whoever waits for it keeps the tailer awake; nobody asks again and again."""
    async with Node.in_memory(log) as node, Node.in_memory(log) as other, node.open("p") as process:
        await at_rest(node)
        waiting = asyncio.create_task(process.receive("go", timeout_s=60))
        await asyncio.sleep(1.2)
        began = time.monotonic()
        await other.signal("p", "go", 1)
        assert (await waiting).name == "go"
        assert time.monotonic() - began < 1.0


def trim_all(log: MemoryLog, kept: MemoryCheckpoints, *process_ids: str) -> None:
    """Checkpoint all processes of the log, and delete its entries."""
    high = log.watermarks(0).high
    saved = [(name.encode(), Checkpoint.of(name, 0, refold(log, name), log.topic_id, -1)) for name in process_ids]
    floor = Floor(offset=high, leader_epoch=-1, topic_id=log.topic_id, since=0)
    kept.write(0, [*((key, each.to_bytes()) for key, each in saved), (FLOOR_KEY, floor.to_bytes())])
    log.trim(0, high)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_an_open_succeeds_though_the_log_was_trimmed_past_an_idle_tail(log: MemoryLog, is_shared: bool) -> None:
    """Its listeners fail; the partition is followed again from the end that the open recovered to."""
    kept = MemoryCheckpoints(1)
    recovery = Recovery.in_memory(log, checkpoints=kept)
    async with Node(log, log, Settings(redis_url=None), recovery=recovery) as node, Node.in_memory(log) as other:
        idle = await node.open("idle")
        await at_rest(node)
        async with other.open("p") as process:
            await process.update("a", 1)
        trim_all(log, kept, "idle", "p")
        if is_shared:  # this node thinks that it knows the process, until it reads on
            with pytest.raises(JournalGap):
                await node.append("p", bodies.ContextUpdated("a", "0"))
            assert (await node.append("p", bodies.ContextUpdated("a", "2"))).seq == 3
        else:
            async with node.open("p") as heir:
                await heir.update("a", 2)
                await heir.confirm()
                assert heir.state.context == {"a": 2}
        with pytest.raises(JournalGap):
            await idle.update("b", 1)
        durable_side(idle).abandon()


@pytest.mark.parametrize("is_trimmed", [True, False])
async def test_recoveries_under_way_go_on_by_another_tail(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, is_trimmed: bool
) -> None:
    """Their tail is ended: an open finds that the log was trimmed, or lost its end. They begin again, without error."""
    kept = MemoryCheckpoints(1)
    recovery = Recovery.in_memory(log, checkpoints=kept)
    async with Node(log, log, Settings(redis_url=None), recovery=recovery) as node, Node.in_memory(log) as other:
        tailer = runtime_of(node).tailer
        monkeypatch.setattr(tailer, "want_proof", lambda tail: None)  # so that each process is recovered
        idle = await node.open("idle")
        await at_rest(node)
        for name in ("first", "second", "followed"):
            async with other.open(name) as process:
                await process.update("a", name)
        if is_trimmed:
            trim_all(log, kept, "idle", "first", "second", "followed")
        recover, begun, may_end = recovery.recover, set[str](), asyncio.Event()

        async def held(process_id: str, **how: Any) -> Recovered:
            found = await recover(process_id, **how)
            begun.add(process_id)
            await may_end.wait()
            return found

        monkeypatch.setattr(recovery, "recover", held)
        second = asyncio.create_task(node.open("second").__aenter__())
        followed = runtime_of(node).values.begin("followed", lambda: None)
        await until(lambda: begun == {"second", "followed"}, "they recover nothing")
        monkeypatch.setattr(recovery, "recover", recover)
        if is_trimmed:
            await (await node.open("first")).release()
        else:
            tail = tailer.tail(0)
            assert tail is not None
            tailer.stop_following(tail, LogTruncated("the log ends before what was read of it"))
        may_end.set()
        assert (await second).state.context == {"a": "second"}
        await until(lambda: followed.state() is not None, "it is not followed")
        state = followed.state()
        assert state is not None
        assert state.context == {"a": "followed"}
        durable_side(idle).abandon()


class Damaged(MemoryLog):
    """A log in which what follows an offset cannot be read."""

    damaged_from: int | None = None

    def read(self, partition: int, start: int, stop: int, keys: Collection[bytes] | None = None) -> Iterator[Batch]:
        if self.damaged_from is not None and stop > self.damaged_from:
            raise LogDamaged("records arrive damaged", partition=partition, offset=self.damaged_from)
        return super().read(partition, start, stop, keys)


async def test_an_owner_that_only_waits_learns_that_the_log_is_damaged() -> None:
    """Nobody asks for a certain offset then: the partition is read to its end, which says what is wrong."""
    log = Damaged(partitions=1)
    async with Node.in_memory(log) as node, Node.in_memory(log) as other:
        process = await node.open("p")
        waiting = asyncio.create_task(process.gate("go"))
        await asyncio.sleep(0.3)
        log.damaged_from = log.watermarks(0).high
        await other.signal("p", "go", 1)
        with pytest.raises(LogDamaged):
            await asyncio.wait_for(waiting, 10)
        durable_side(process).abandon()


async def test_a_caller_gets_the_error_of_a_partition_that_is_no_longer_followed(log: MemoryLog) -> None:
    """An open that was sending its claim meanwhile used to wait for all of ``confirm_timeout_s``."""
    async with Node.in_memory(log) as node:
        process = await node.open("p")
        tail = runtime_of(node).tailer.tail(0)
        assert tail is not None
        runtime_of(node).tailer.stop_following(tail, LogDamaged("records arrive damaged", partition=0))
        with pytest.raises(LogDamaged):
            await asyncio.wait_for(runtime_of(node).tailer.wait_for(tail, tail.position + 1), 5)
        durable_side(process).abandon()
