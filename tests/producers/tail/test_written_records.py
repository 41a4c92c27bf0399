"""A node's own records in a file: it need not read them back where no other program has written in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from seekpoint.consumers.sqlite.sqlite_tail import SqliteTail
from seekpoint.producers import Node
from seekpoint.producers.node import runtime_of
from seekpoint.schemas.errors import AppendConflict, Fenced
from seekpoint.schemas.log.log_ports import Record


class Reads:
    """Counts the looks at a file that found records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found = 0
        read_new = SqliteTail._read_new

        def counted(tail: SqliteTail, connection: object) -> object:
            found = read_new(tail, connection)  # type: ignore[arg-type]
            self.found += sum(len(one.keys) for one in found)
            return found

        monkeypatch.setattr(SqliteTail, "_read_new", counted)


async def test_a_node_that_writes_alone_reads_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends are confirmed by their commits, and so is the claim. The tail rests."""
    reads = Reads(monkeypatch)
    async with Node.local(tmp_path / "journal.db") as node:
        process = await node.open("page-7", shared=True)
        for number in range(20):
            done = await process.update("number", number, expected_seq=number)
            assert done.seq == number + 1
        assert process.state.context == {"number": 19}
        was = reads.found
        for number in range(20, 60):
            await process.update("number", number)
        assert (reads.found, runtime_of(node).tailer.is_idle) == (was, True)
        assert (await process.read()).context == {"number": 59}


async def test_records_of_another_node_are_read_before_the_own_one_counts(tmp_path: Path) -> None:
    """A claim of another node lies between: the entry behind it is no entry of this owner, and the error says so."""
    file = tmp_path / "journal.db"
    async with Node.local(file, node_id="a") as here, Node.local(file, node_id="b") as there:
        first, second = await here.open("page-7", shared=True), await there.open("page-7", shared=True)
        for number in range(0, 20, 2):
            await first.update("number", number, expected_seq=number)
            await second.update("number", number + 1, expected_seq=number + 1)
        with pytest.raises(AppendConflict):
            await first.update("number", 0, expected_seq=19)
        assert (await first.read()).context == (await second.read()).context == {"number": 19}


async def test_an_owner_whose_process_was_taken_is_fenced(tmp_path: Path) -> None:
    """Its entry is in the file, behind the claim of the other node."""
    file = tmp_path / "journal.db"
    async with Node.local(file, node_id="a") as here, Node.local(file, node_id="b") as there:
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


@pytest.mark.parametrize("offsets", [(1, 2), (0, 2), (3, 4)])
async def test_records_behind_something_unread_are_not_delivered(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    """What lies between may be a claim: the tail reads it first."""
    async with Node.local(tmp_path / "journal.db", partitions=1) as node:
        tailer = runtime_of(node).tailer
        tail = tailer.tail_from(0, 0)
        tailer.take_written([Record(0, offset, 0, b"p", b"") for offset in offsets])
        assert tail.position == 0
        tailer.take_written([Record(0, offset, 0, b"p", b"") for offset in (0, 1)])
        assert tail.position == 2
