"""The index of the processes of one prefix: it has the states of a plain recovery, at each call. On a log in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import PROCESS_IDS, Step, steps, write_history
from projected_log import Projected
from seekpoint import MemoryLog, Node, Recovery
from seekpoint.consumers.recovery import process_index
from seekpoint.consumers.recovery.process_index import ProcessIndex
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.sqlite.sqlite_log import SqliteLog

PARTITIONS = 2


async def ids(index: ProcessIndex, prefix: str = "") -> list[str]:
    """Return the ids of the processes, those that were written last first."""
    return [process_id async for process_id, _ in index.newest(prefix, at_once=2)]


@settings(deadline=None, max_examples=60)
@given(
    steps(),
    st.integers(0, 100),
    st.integers(0, 100),
    st.sampled_from(["view", "checkpoints", "neither"]),
    st.sampled_from(["", *PROCESS_IDS, *(one[:2] for one in PROCESS_IDS)]),
    st.integers(1, 3),
)
def test_its_states_are_those_of_a_recovery(
    history: list[Step], first: int, view: int, tiers: str, prefix: str, kept: int
) -> None:
    """Whatever was written between two calls, however far the view is, and however few states are kept."""
    appended: list[Any] = []
    scratch = MemoryLog(partitions=PARTITIONS)

    def append(*record: Any) -> Any:
        appended.append(record)
        return scratch.append(*record)

    projected = Projected(scratch, write_history(history, append, PARTITIONS))
    log = MemoryLog(partitions=PARTITIONS)
    half = len(appended) * first // 100
    for record in appended[:half]:
        log.append(*record)
    for partition in range(PARTITIONS):
        high = log.watermarks(partition).high
        projected.project(partition, high * view // 100)
        projected.save(partition, high * view // 100, [process_id.encode() for process_id in PROCESS_IDS])

    async def compare() -> None:
        recovery = Recovery(
            log, view=projected.view if tiers == "view" else None,
            checkpoints=projected.checkpoints if tiers == "checkpoints" else None,
        )  # fmt: skip
        async with recovery:
            index = ProcessIndex(recovery, prefix)
            for rest in ([], appended[half:]):
                for record in rest:
                    log.append(*record)
                expected = {
                    process_id: found.state.hash
                    for process_id, found in Recoverer(log).recover_many(PROCESS_IDS).items()
                    if found.known and process_id.startswith(prefix)
                }
                assert {one: state.hash async for one, state in index.newest(prefix, at_once=2)} == expected

    with mock.patch.object(process_index, "_KEPT_MAX", kept):
        asyncio.run(compare())


async def test_what_was_written_last_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after another node's write. A process that was read is folded on: nothing is recovered again."""
    log = MemoryLog()
    async with Node.in_memory(log, node_id="a") as here, Node.in_memory(log, node_id="b") as there:
        index = here.index("a/")
        assert await ids(index) == []
        for process_id in ("a/1", "a/2", "b/1", "a/3"):
            await (await there.open(process_id, shared=True)).update("n", process_id)
            await asyncio.sleep(0.002)
        assert await ids(index) == ["a/3", "a/2", "a/1"]
        assert await ids(index, "a/2") == ["a/2"]
        monkeypatch.setattr(Recovery, "recover_many", None)
        await (await there.open("a/1", shared=True)).update("n", 7)
        newest = [(process_id, state.context["n"]) async for process_id, state in index.newest("a/")]
        assert newest == [("a/1", 7), ("a/3", "a/3"), ("a/2", "a/2")]


async def test_a_trimmed_log_is_read_anew() -> None:
    """From checkpoints; also by an index that lacks entries that are gone now: the states that it has are too old."""
    log = MemoryLog(partitions=1)

    async def write(value: int) -> None:
        async with Node.in_memory(log) as node:
            for process_id in ("a/1", "a/2"):
                await (await node.open(process_id, shared=True)).update("n", value)

    async def values(index: ProcessIndex) -> dict[str, int]:
        return {process_id: state.context["n"] async for process_id, state in index.newest()}

    await write(1)
    projected = Projected(log, [])
    async with Recovery(log, checkpoints=projected.checkpoints) as recovery:
        old = ProcessIndex(recovery, "a/")
        assert await values(old) == {"a/1": 1, "a/2": 1}
        await write(2)
        states = {key.encode(): found.state for key, found in Recoverer(log).recover_many(["a/1", "a/2"]).items()}
        high = log.watermarks(0).high
        with mock.patch.object(projected, "states", return_value=states):
            projected.save(0, high, [*states])
        log.trim(0, high)
        assert await values(old) == await values(ProcessIndex(recovery, "a/")) == {"a/1": 2, "a/2": 2}


async def test_a_file_lists_its_keys(tmp_path: Path) -> None:
    """Below a prefix alone, in the order of their newest records, in a program that has just begun."""
    async with Node.local(tmp_path / "a.db") as node:
        for process_id in ("a/1", "a/2", "b/1", "a", "a/3", "a/1"):
            await (await node.open(process_id, shared=True)).update("n", 1)
            await asyncio.sleep(0.003)
    async with Node.local(tmp_path / "a.db") as node:
        assert await ids(node.index("a/")) == ["a/1", "a/3", "a/2"]
        assert await ids(node.index("")) == ["a/1", "a/3", "a", "b/1", "a/2"]


async def test_it_begins_with_the_view() -> None:
    """And reads of the log what the view does not have yet."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        for process_id in ("a/1", "a/2"):
            await (await node.open(process_id, shared=True)).update("n", 1)
    projected = Projected(log, [])
    states = {b"a/1": Recoverer(log).recover("a/1").state}
    with mock.patch.object(projected, "states", return_value=states):
        projected.project(0, 2)
    starts: list[int] = []
    read = MemoryLog.read

    def noted(self: MemoryLog, partition: int, start: int, *rest: Any) -> Any:
        starts.append(start)
        return read(self, partition, start, *rest)

    async with Recovery(log, view=projected.view) as recovery:
        with mock.patch.object(MemoryLog, "read", noted):
            assert await ids(ProcessIndex(recovery, "a/")) == ["a/2", "a/1"]
    assert min(starts) == 2


async def test_a_program_that_begins_reads_a_narrow_prefix_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few times; then all ids, and from then on what is new."""
    asked: list[bytes] = []
    newest_times = SqliteLog.newest_times

    def noted(self: SqliteLog, partition: int, prefix: bytes, stop: int) -> dict[bytes, int]:
        asked.append(prefix)
        return newest_times(self, partition, prefix, stop)

    monkeypatch.setattr(SqliteLog, "newest_times", noted)
    monkeypatch.setattr(process_index, "_NARROW_MAX", 2)
    async with Node.local(tmp_path / "a.db") as node:
        for process_id in ("a/1/x", "a/2/x", "a/1/y"):
            await (await node.open(process_id, shared=True)).update("n", 1)
            await asyncio.sleep(0.003)
        index = node.index("a/")
        for left in (2, 1, 0, 0):
            assert await ids(index, "a/1/") == ["a/1/y", "a/1/x"]
            assert set(asked) == ({b"a/1/"} if left else {b"a/"} if asked else set())
            asked.clear()
