"""Where processes come from and what comes from them, from any view and from none. In memory."""

from __future__ import annotations

from typing import Any

import pytest

from histories import Written
from projected_log import Projected
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.view_summaries import summaries
from seekpoint.consumers.view.process_summary import Summary
from seekpoint.producers import Node, Process, SyncNode, agent
from seekpoint.producers.history.lineages import ProcessLineage, find_lineage, lineage_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import InvalidName, UnknownProcess
from seekpoint.schemas.state.lifecycle import Lifecycle


@agent("child")
async def child(process: Process, given: str) -> str:
    return given


@agent("parent")
async def parent(process: Process, given: str = "x") -> str:
    told: str = await process.spawn(child, f"{process.process_id}.1", given).result()
    return told


def summary(process_id: str, **origin: Any) -> Summary:
    """Return a summary with nothing but its origin."""
    return Summary(process_id=process_id, lifecycle=Lifecycle.RUNNING, offset=0, **origin)


def told(found: ProcessLineage) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    return (
        [(one.process_id, one.relation, one.seq) for one in found.parents],
        [(one.process_id, one.relation, one.of, one.depth) for one in found.descendants],
    )


async def family(node: Node) -> None:
    """Make a process with a child, a fork, a fork of it, and a rerun."""
    await node.run(parent, "p")
    async with node.fork("p", "q", at=1):
        pass
    async with node.fork("q", "r"):
        pass
    await node.rerun(parent, "p")


FAMILY = [("p.1", "child", "p", 1), ("p~rerun", "rerun", "p", 1), ("q", "fork", "p", 1), ("r", "fork", "q", 2)]


async def test_a_node_tells_parents_forks_reruns_and_children_in_both_directions() -> None:
    async with Node.in_memory(MemoryLog()) as node:
        await family(node)
        found = await node.lineage("p")
        assert (found.process_id, found.status, *told(found)) == ("p", "finished", [], FAMILY)
        assert {one.process_id: one.status for one in found.descendants} == {
            "p.1": "finished", "p~rerun": "finished", "q": "running", "r": "running"
        }  # fmt: skip
        found = await node.lineage("r")
        assert told(found) == ([("p", "fork", 1), ("q", "fork", 2)], [])
        assert [one.status for one in found.parents] == ["finished", "running"]
        assert told(await node.lineage("p.1")) == ([("p", "child", None)], [])
        with pytest.raises(UnknownProcess):
            await node.lineage("p.2")
        with pytest.raises(InvalidName):
            await node.lineage("")


def test_a_program_that_is_not_async_gets_the_same() -> None:
    with SyncNode.in_memory(MemoryLog()) as node:
        assert node.run(parent, "p") == "x"
        assert told(node.lineage("p")) == ([], [("p.1", "child", "p", 1)])


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
async def test_a_view_that_is_behind_tells_the_same_as_the_log(share: float) -> None:
    """What the view has not applied yet is read from the log, and only that."""
    log = MemoryLog(partitions=1)
    async with Node.in_memory(log) as node:
        await family(node)
    high = log.watermarks(0).high
    projected = Projected(log, _written(log))
    projected.project(0, round(high * share))
    reasons: list[str] = []
    recoverer = Recoverer(log, view=projected.view)
    assert told(find_lineage(recoverer, "p", reasons.append)) == ([], FAMILY)
    assert told(find_lineage(recoverer, "r", reasons.append))[0] == [("p", "fork", 1), ("q", "fork", 2)]
    assert not reasons
    assert told(find_lineage(Recoverer(log), "p", reasons.append)) == ([], FAMILY)
    assert reasons == ["the settings name no Redis"]
    if share == 1:
        recoverer.recover_partition = _not_asked  # type: ignore[method-assign, assignment]
        assert {one.process_id for one in summaries(recoverer, 0, reasons.append)} >= {"p", "q", "r"}


def _not_asked(*args: Any) -> Any:
    raise AssertionError("the view has it all, and states were recovered")


def _written(log: MemoryLog) -> list[Written]:
    return [
        Written(0, record.offset, record.key, record.value, log.codec.decode(record.value))
        for batch in log.read(0, 0, log.watermarks(0).high)
        for record in batch.records
    ]


def test_a_line_is_followed_also_through_processes_that_are_gone() -> None:
    """A parent that the journal lost is named all the same, and nothing goes round in circles."""
    everybody = [
        summary("a", parent_id="gone", parent_seq=2), summary("b", parent_id="a", parent_seq=7),
        summary("c", parent_id="b", parent_seq=1), summary("d", spawned_by="b"), summary("else"),
        summary("x", parent_id="y", parent_seq=1), summary("y", parent_id="x", parent_seq=1),
    ]  # fmt: skip
    found = lineage_of("b", everybody)
    assert told(found) == (
        [("gone", "fork", 2), ("a", "fork", 7)], [("c", "fork", "b", 1), ("d", "child", "b", 1)]
    )  # fmt: skip
    assert [one.status for one in found.parents] == [None, "running"]
    assert told(lineage_of("else", everybody)) == ([], [])
    assert told(lineage_of("x", everybody)) == ([("y", "fork", 1)], [("y", "fork", "x", 1)])


def test_a_long_line_of_forks_is_told_whole() -> None:
    line = [summary(f"{number:05}", parent_id=f"{number - 1:05}", parent_seq=1) for number in range(1, 5_000)]
    found = lineage_of("00000", [summary("00000"), *line])
    assert [one.depth for one in found.descendants] == [*range(1, 5_000)]
    assert len(lineage_of("04999", [summary("00000"), *line]).parents) == 4_999
