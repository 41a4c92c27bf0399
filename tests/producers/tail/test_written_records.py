"""A node's own records, taken from their acknowledgements: it need not read them back where nobody else has written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import pytest

from idle_tailers import until_idle
from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.producers.tail import tail_follower
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import AppendConflict, Fenced
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.tail import TailBatch


class Nodes(Protocol):
    """Makes nodes of one journal."""

    def __call__(self, node_id: str) -> Node: ...


@pytest.fixture(params=["file", pytest.param("kafka", marks=pytest.mark.cluster)])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    """In a file, and on Kafka."""
    if request.param == "file":
        return lambda node_id: Node.local(tmp_path / "journal.db", node_id=node_id)
    settings: Settings = request.getfixturevalue("journal")
    return lambda node_id: Node.connect(settings, node_id=node_id)


class Reads:
    """Counts the records that a node's thread hands over."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found = 0
        tailer = runtime_of(node).tailer
        on_batch = tailer._follower._on_batch
        assert on_batch is not None

        def counted(generation: int, batch: TailBatch) -> None:
            self.found += len(batch.keys)
            on_batch(generation, batch)

        monkeypatch.setattr(tailer._follower, "_on_batch", counted)


async def test_a_node_that_writes_alone_reads_nothing_back(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its appends, and its claim, are confirmed by their acknowledgements. The thread that reads rests."""
    async with nodes("a") as node:
        process = await node.open("page-7", shared=True)
        for number in range(20):
            done = await process.update("number", number, expected_seq=number)
            assert done.seq == number + 1
        assert process.state.context == {"number": 19}
        await until_idle(node)
        reads = Reads(node, monkeypatch)
        for number in range(20, 60):
            await process.update("number", number)
        assert (reads.found, runtime_of(node).tailer.is_idle) == (0, True)
        assert (await process.read()).context == {"number": 59}


async def test_records_of_another_node_are_read_before_the_own_one_counts(nodes: Nodes) -> None:
    """A claim of another node lies between: the entry behind it is no entry of this owner, and the error says so."""
    async with nodes("a") as here, nodes("b") as there:
        first, second = await here.open("page-7", shared=True), await there.open("page-7", shared=True)
        for number in range(0, 20, 2):
            await first.update("number", number, expected_seq=number)
            await second.update("number", number + 1, expected_seq=number + 1)
        with pytest.raises(AppendConflict):
            await first.update("number", 0, expected_seq=19)
        assert (await first.read()).context == (await second.read()).context == {"number": 19}


async def test_the_thread_rests_as_soon_as_a_node_writes_alone(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read own records until nobody has waited for a while."""
    monkeypatch.setattr(tail_follower, "_LINGER_S", 3600.0)
    async with nodes("a") as node:
        process = await node.open("case-7")
        while not runtime_of(node).tailer.is_idle:
            await process.update("step", 1)
            await asyncio.sleep(0.01)
        assert process.state.context == {"step": 1}


async def test_the_threads_of_two_nodes_that_write_in_turn_do_not_rest(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would write behind the other's claim, which it has not read, and write again."""
    monkeypatch.setattr(tail_follower, "_LINGER_S", 3600.0)
    monkeypatch.setattr(tail_follower, "_REST_S", 0.0)
    async with nodes("a") as here, nodes("b") as there:
        first, second = await here.open("page-7", shared=True), await there.open("page-7", shared=True)
        for number in range(0, 10, 2):
            await first.update("number", number)
            await second.update("number", number + 1)
        await asyncio.sleep(0.5)
        assert [runtime_of(node).tailer.is_idle for node in (here, there)] == [False, False]


async def test_an_owner_whose_process_was_taken_is_fenced(nodes: Nodes) -> None:
    """Its entry is in the log, behind the claim of the other node."""
    async with nodes("a") as here, nodes("b") as there:
        former = await here.open("case-7")
        await former.update("step", 1)
        owner = await there.open("case-7", take_over=True)
        await owner.update("step", 2)
        with pytest.raises(Fenced):
            await former.update("step", 3)
            await former.flush()
            await former.confirm()
        assert (await there.recover("case-7")).state.context == {"step": 2}
        await owner.release()


@pytest.mark.parametrize(("offsets", "position"), [((1, 2), 0), ((0, 2), 0), ((3, 4), 0), ((0, 1), 2)])
async def test_records_behind_something_unread_are_not_delivered(
    tmp_path: Path, offsets: tuple[int, ...], position: int
) -> None:
    """What lies between may be a claim: the tail reads it first."""
    async with Node.local(tmp_path / "journal.db", partitions=1) as node:
        tailer = runtime_of(node).tailer
        tail = tailer.tail_from(0, 0)
        tailer.take_written([Record(0, offset, 0, b"p", b"") for offset in offsets])
        assert tail.position == position


async def test_records_that_the_thread_has_read_already_are_left_out(tmp_path: Path) -> None:
    """It may be faster than the acknowledgements of a batch. Those of several partitions come in any order."""
    async with Node.local(tmp_path / "journal.db", partitions=2) as node:
        tailer = runtime_of(node).tailer
        one, two = tailer.tail_from(0, 3), tailer.tail_from(1, 0)
        places = [(0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (0, 4)]
        tailer.take_written([Record(partition, offset, 0, b"p", b"") for partition, offset in places])
        assert (one.position, two.position) == (5, 2)
        tailer.take_written([Record(0, offset, 0, b"p", b"") for offset in (3, 4)])
        assert one.position == 5
        tailer.take_written([Record(0, offset, 0, b"p", b"") for offset in (4, 6)])
        assert one.position == 5  # what lies between is unread
