"""Trimming in memory: what is checked before anything is deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.recovery.attachments import read_attachment
from seekpoint.producers import Node
from seekpoint.producers.process import durable_side
from seekpoint.schemas import Entry, MemoryLog, bodies, encode, fold, new_id, new_state
from seekpoint.schemas.errors import CheckpointDiffers, JournalMismatch
from seekpoint.schemas.state.process_state import State


class World:
    """A log of two processes, and checkpoints of them."""

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.kept = MemoryCheckpoints(partitions=1)
        self.deleted: list[tuple[int, int]] = []
        self.trim = Trim(self.log, self.kept, self)

    def delete_below(self, partition: int, offset: int) -> None:
        self.deleted.append((partition, offset))
        self.log.trim(partition, offset)

    async def work(self) -> None:
        async with Node.in_memory(self.log) as node:
            for process_id in ("a", "b"):
                async with node.open(process_id) as process:
                    for number in range(5):
                        await process.update("n", number)

    def say(self, process_id: str, key: str) -> None:
        """Write a signal, which is one entry more."""
        entry = Entry(new_id(), process_id, None, 0, None, None, 0, None, None, None, bodies.Signal(key, "1"))
        self.log.append(0, process_id.encode(), encode(entry))

    def state(self, process_id: str) -> State:
        state = new_state()
        for batch in self.log.read(0, 0, self.log.watermarks(0).high, {process_id.encode()}):
            for record in batch.records:
                state = fold(state, record.offset, self.log.codec.decode(record.value))
        return state

    def onto(self, state: State, process_id: str = "a") -> State:
        """Fold the rest of the process's log onto ``state``."""
        for batch in self.log.read(0, *self.log.watermarks(0), {process_id.encode()}):
            for record in batch.records:
                state = fold(state, record.offset, self.log.codec.decode(record.value))
        return state

    def save(self, process_id: str, state: State | None = None, **wrong: Any) -> None:
        checkpoint = Checkpoint.of(process_id, 0, state or self.state(process_id), self.log.topic_id, -1)
        self.kept.write(0, [(process_id.encode(), replace(checkpoint, **wrong).to_bytes())])

    def publish(self, offset: int, topic_id: str | None = None) -> None:
        floor = Floor(offset=offset, leader_epoch=-1, topic_id=topic_id or self.log.topic_id, since=0)
        self.kept.write(0, [(FLOOR_KEY, floor.to_bytes())])


@pytest.fixture
async def world() -> World:
    world = World()
    await world.work()
    return world


async def test_a_trim_deletes_below_the_floor_and_a_dry_run_nothing(world: World) -> None:
    """All entries below the floor are deleted once both checkpoints were checked."""
    world.save("a")
    world.save("b")
    world.publish(12)
    assert world.trim.plan(0).target == 12
    assert world.deleted == []
    done = world.trim.run(0)
    assert (done.low, done.target, done.offsets, done.checkpoints) == (0, 12, 12, 2)
    assert world.log.watermarks(0).low == 12
    assert world.trim.run(0).offsets == 0


async def test_without_a_floor_nothing_is_deleted(world: World) -> None:
    """No projector has published a floor."""
    assert world.trim.run(0).floor is None
    assert world.deleted == []


async def test_an_entry_that_no_checkpoint_covers_stops_everything(world: World) -> None:
    """A floor that is too high is detected before a record is deleted."""
    world.save("a")
    world.publish(12)
    with pytest.raises(JournalMismatch, match="in no checkpoint"):
        world.trim.run(0)
    assert world.deleted == []


@pytest.mark.parametrize("wrong", [{"digest": "00"}, {"topic_id": "another"}, {"seq": 99}])
async def test_a_checkpoint_that_is_not_whole_stops_everything(world: World, wrong: dict[str, Any]) -> None:
    """If its hash, topic or head is wrong, it cannot replace entries."""
    world.save("a", **wrong)
    world.save("b")
    world.publish(12)
    with pytest.raises(JournalMismatch):
        world.trim.run(0)
    assert world.deleted == []


@pytest.mark.parametrize(("offset", "topic_id"), [(12, "another"), (99, None)])
async def test_a_floor_of_another_topic_or_beyond_the_log_stops_everything(
    world: World, offset: int, topic_id: str | None
) -> None:
    """Such a floor says nothing about this log."""
    world.save("a")
    world.save("b")
    world.publish(offset, topic_id)
    with pytest.raises(JournalMismatch):
        world.trim.run(0)
    assert world.deleted == []


async def test_poison_below_the_floor_does_not_stop_a_trim(world: World) -> None:
    """Poison is no entry, and its dead letter keeps its bytes."""
    world.save("a")
    world.save("b")
    world.log.append(0, b"a", b"junk")
    world.publish(world.log.watermarks(0).high)
    assert world.trim.run(0).target == world.log.watermarks(0).high


async def test_a_degraded_process_stops_the_trim_at_its_first_entry(world: World) -> None:
    """Its history stays until a person has looked."""
    claim = Entry(new_id(), "c", None, 0, None, None, 0, None, None, None, bodies.Claim(0, "n", "b"))
    first = world.log.append(0, b"c", encode(claim))
    gap = Entry(new_id(), "c", 2, 1, claim.id, None, 0, None, None, None, bodies.ContextCleared())
    world.log.append(0, b"c", encode(gap))
    for process_id in ("a", "b", "c"):
        world.save(process_id)
    world.publish(world.log.watermarks(0).high)
    done = world.trim.run(0)
    assert done.target == first
    assert "degraded" in done.note


# --- what is deleted is folded anew -----------------------------------------------------------------------------------
def forged(state: State) -> State:
    """Return the same checkpoint with another value and a correct hash."""
    draft = state.thaw()
    draft.values_json = {**draft.values_json, "n": "1000000"}
    return draft.freeze()


async def test_a_checkpoint_that_the_log_does_not_lead_to_stops_everything(world: World) -> None:
    """The checkpoint is well-formed and covers all entries. Only recomputing it shows that it is wrong."""
    world.save("a", forged(world.state("a")))
    world.save("b")
    world.publish(12)
    with pytest.raises(CheckpointDiffers, match="differs from the state that the log gives") as caught:
        world.trim.run(0)
    assert caught.value.facts["process_id"] == "a"
    assert world.deleted == []


async def test_a_checkpoint_is_folded_as_far_as_it_goes(world: World) -> None:
    """A checkpoint may be older than the log's end and newer than the floor."""
    world.save("a")
    world.save("b")
    world.publish(12)
    world.say("a", "later")
    world.say("b", "later still")
    world.save("b")
    done = world.trim.run(0)
    assert (done.recomputed, done.unproven) == (2, 0)


async def test_behind_an_earlier_trim_the_older_checkpoint_is_folded_on(world: World) -> None:
    """The rest of the log leads from the older checkpoint to the newer one."""
    states = {"a": world.state("a")}
    world.save("a")
    world.save("b")
    world.publish(14)
    assert world.trim.run(0).recomputed == 2
    for name in ("first", "second", "third"):
        world.say("a", name)
        states["a"] = world.onto(states["a"])
        world.save("a", states["a"])
    world.publish(world.log.watermarks(0).high)
    done = world.trim.plan(0)
    assert (done.recomputed, done.unproven, done.target) == (1, 0, 17)
    world.save("a", forged(states["a"]))
    with pytest.raises(CheckpointDiffers):
        world.trim.run(0)
    assert world.log.watermarks(0).low == 14


async def test_where_no_older_checkpoint_is_left_the_trim_says_so(world: World) -> None:
    """Compaction removed it, so the state cannot be recomputed."""
    state = world.state("a")
    world.save("a")
    world.save("b")
    world.publish(14)
    world.trim.run(0)
    world.say("a", "first")
    world.save("a", world.onto(state))
    world.publish(15)
    world.kept.compact(0)
    done = world.trim.run(0)
    assert (done.recomputed, done.unproven, done.target) == (0, 1, 15)


async def test_a_trim_stops_at_the_oldest_part_of_an_attachment(world: World) -> None:
    """No checkpoint has the bytes. What was detached holds nothing back; the rest can be read."""
    async with Node.in_memory(world.log) as node:
        async with node.open("a") as process:
            gone = await process.attach(b"gone")
            kept = await process.attach(b"kept")
            await process.detach(gone)
        async with node.open("b") as process:
            await process.update("n", 9)
        end = world.log.watermarks(0).high
        world.save("a")
        world.save("b")
        world.publish(end)
        before = world.state("a")
        [at] = before.attached_at[kept.digest]
        planned = world.trim.plan(0)
        assert (planned.target, planned.target < end) == (at, True)
        assert planned.note == "a has an attachment there, which can be read until it is detached"
        world.trim.run(0)
        assert world.log.watermarks(0).low == at
        assert read_attachment(world.log, before, kept) == b"kept"


async def test_an_attachment_that_is_being_written_stops_a_trim(world: World) -> None:
    """Its writer may go on at any time."""
    async with Node.in_memory(world.log) as node, node.open("a") as process:
        await durable_side(process).append(bodies.PartAttached("0" * 64, 9, 0, b"a part"))
        await process.update("n", 9)
    world.save("a")
    world.save("b")
    world.publish(world.log.watermarks(0).high)
    assert world.trim.plan(0).target == world.state("a").attached_at["0" * 64][0]


async def test_an_attachment_in_a_blob_store_holds_no_trim_back(world: World) -> None:
    """Its bytes do not depend on the log."""
    async with Node.in_memory(world.log) as node, node.open("a") as process:
        await durable_side(process).append(bodies.PartAttached("0" * 64, 9, store="s3://bucket"))
    world.save("a")
    world.save("b")
    world.publish(world.log.watermarks(0).high)
    assert world.trim.plan(0).target == world.log.watermarks(0).high
